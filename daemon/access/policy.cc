#include "daemon/access/policy.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"

namespace profd::access {
namespace {

constexpr size_t kMaxShownBytes = 80;
constexpr int64_t kMaxId = 0xfffffffe;  // (uid_t)-1 is nobody's.
constexpr std::string_view kSpiffePrefix = "spiffe://";

using Verbs = std::bitset<kVerbCount>;

// Whom a rule is about.
struct Whom {
  enum class Kind { kAny, kUnknown, kUid, kGid, kCommonName, kDnsName, kSpiffeId };
  Kind kind = Kind::kAny;
  int64_t id = -1;      // kUid, kGid
  std::string text;     // The others.
  bool prefix = false;  // `text` is how it begins.

  bool MatchesText(std::string_view value) const {
    return !value.empty() && (prefix ? value.starts_with(text) : value == text);
  }
};

// What a rule is about.
struct Selector {
  enum class Kind { kAll, kOwn, kUid, kJob, kNamespace };
  Kind kind = Kind::kAll;
  int64_t uid = -1;
  std::string text;
};

struct Rule {
  bool allow = false;
  Whom whom;
  Verbs verbs;
  Selector selector;
};

struct Mapping {
  Whom whom;
  int64_t uid = -1;
};

class PolicyRules final : public AccessRules {
 public:
  PolicyRules(std::vector<Rule> rules, std::vector<Mapping> mappings)
      : rules_(std::move(rules)), mappings_(std::move(mappings)) {}

  bool Allows(const Principal& who, Verb verb, const Ownership& owner) const override {
    const int64_t uid = UidOf(who);
    for (const Rule& rule : rules_) {
      if (IsAbout(rule, who, uid, verb) && Selects(rule.selector, uid, owner)) return rule.allow;
    }
    return uid == 0 || (uid > 0 && verb != Verb::kAdmin && uid == owner.uid);
  }

  bool AllowsAny(const Principal& who, Verb verb) const override {
    const int64_t uid = UidOf(who);
    for (const Rule& rule : rules_) {
      if (!IsAbout(rule, who, uid, verb)) continue;
      if (rule.allow && (rule.selector.kind != Selector::Kind::kOwn || uid >= 0)) return true;
      if (!rule.allow && rule.selector.kind == Selector::Kind::kAll) return false;
    }
    return uid == 0 || (uid > 0 && verb != Verb::kAdmin);
  }

  bool AllowsAll(const Principal& who, Verb verb) const override {
    const int64_t uid = UidOf(who);
    for (const Rule& rule : rules_) {
      if (!IsAbout(rule, who, uid, verb)) continue;
      if (!rule.allow) return false;
      if (rule.selector.kind == Selector::Kind::kAll) return true;
    }
    return uid == 0;
  }

 private:
  // The local caller's, or the one a `map` line gives; -1: none.
  int64_t UidOf(const Principal& who) const {
    if (who.IsLocal()) return who.uid;
    for (const Mapping& mapping : mappings_) {
      if (IsIn(mapping.whom, who, /*uid=*/-1)) return mapping.uid;
    }
    return -1;
  }

  static bool IsKnown(const Principal& who) {
    return who.IsLocal() || !who.common_name.empty() || !who.dns_names.empty() ||
           !who.spiffe_id.empty();
  }

  static bool IsIn(const Whom& whom, const Principal& who, int64_t uid) {
    switch (whom.kind) {
      case Whom::Kind::kAny:
        return IsKnown(who);
      case Whom::Kind::kUnknown:
        return !IsKnown(who);
      case Whom::Kind::kUid:
        return uid == whom.id;
      case Whom::Kind::kGid:
        return who.IsLocal() &&
               (who.gid == whom.id || std::ranges::find(who.groups, whom.id) != who.groups.end());
      // A local caller has no certificate, whatever its fields say.
      case Whom::Kind::kCommonName:
        return !who.IsLocal() && whom.MatchesText(who.common_name);
      case Whom::Kind::kDnsName:
        return !who.IsLocal() && std::ranges::any_of(who.dns_names, [&](const std::string& name) {
          return whom.MatchesText(name);
        });
      case Whom::Kind::kSpiffeId:
        return !who.IsLocal() && whom.MatchesText(who.spiffe_id);
    }
    return false;
  }

  static bool IsAbout(const Rule& rule, const Principal& who, int64_t uid, Verb verb) {
    return rule.verbs.test(static_cast<size_t>(verb)) && IsIn(rule.whom, who, uid);
  }

  static bool Selects(const Selector& selector, int64_t uid, const Ownership& owner) {
    switch (selector.kind) {
      case Selector::Kind::kAll:
        return true;
      case Selector::Kind::kOwn:
        return uid >= 0 && uid == owner.uid;
      case Selector::Kind::kUid:
        return owner.uid == selector.uid;
      case Selector::Kind::kJob:
        return owner.job == selector.text;
      case Selector::Kind::kNamespace:
        return owner.pod_namespace == selector.text;
    }
    return false;
  }

  const std::vector<Rule> rules_;
  const std::vector<Mapping> mappings_;
};

absl::Status Wrong(std::string_view what) { return absl::InvalidArgumentError(ToAbsl(what)); }

std::string Shown(std::string_view word) {
  return StrCat("'", ForDisplay(word, kMaxShownBytes), "'");
}

// What follows `prefix` in `word`; nullopt: it does not begin so.
std::optional<std::string_view> After(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return std::nullopt;
  return word.substr(prefix.size());
}

absl::StatusOr<int64_t> ParseId(std::string_view text, std::string_view word) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id > kMaxId) {
    return Wrong(StrCat(Shown(word),
                        " has no number after the colon; write uid:1000, or "
                        "user:NAME"));
  }
  return id;
}

class LineParser {
 public:
  LineParser(std::vector<std::string> words, const AccountNames& accounts)
      : words_(std::move(words)), accounts_(accounts) {}

  absl::StatusOr<Rule> ParseRule() const {
    if (words_.size() != 4) {
      return Wrong(
          StrCat(words_.size(), " words; a rule has four: allow|deny PRINCIPAL VERBS SELECTOR"));
    }
    Rule rule{.allow = words_[0] == "allow"};
    ASSIGN_OR_RETURN(rule.whom, ParseWhom(words_[1]));
    ASSIGN_OR_RETURN(rule.verbs, ParseVerbs(words_[2]));
    ASSIGN_OR_RETURN(rule.selector, ParseSelector(words_[3]));
    return rule;
  }

  absl::StatusOr<Mapping> ParseMapping() const {
    if (words_.size() != 3) {
      return Wrong(StrCat(words_.size(), " words; write: map cn:NAME uid:N"));
    }
    Mapping mapping;
    ASSIGN_OR_RETURN(mapping.whom, ParseWhom(words_[1]));
    switch (mapping.whom.kind) {
      case Whom::Kind::kCommonName:
      case Whom::Kind::kDnsName:
      case Whom::Kind::kSpiffeId:
        break;
      default:
        return Wrong(StrCat(Shown(words_[1]),
                            " is not what a certificate says; map cn:, dns: or spiffe://"));
    }
    ASSIGN_OR_RETURN(const std::optional<int64_t> uid, ParseUser(words_[2]));
    if (!uid.has_value()) {
      return Wrong(
          StrCat(Shown(words_[2]), " is not a user of this node; write uid:N or user:NAME"));
    }
    mapping.uid = *uid;
    return mapping;
  }

 private:
  // uid:N or user:NAME; nullopt: it is neither.
  absl::StatusOr<std::optional<int64_t>> ParseUser(std::string_view word) const {
    if (const auto number = After(word, "uid:")) {
      ASSIGN_OR_RETURN(const int64_t uid, ParseId(*number, word));
      return uid;
    }
    if (const auto name = After(word, "user:")) {
      const std::optional<int64_t> uid = accounts_.user(std::string(*name));
      if (!uid.has_value()) {
        return Wrong(StrCat("this node has no user ", Shown(*name), "; name one, or write uid:N"));
      }
      return uid;
    }
    return std::nullopt;
  }

  absl::StatusOr<Whom> ParseWhom(std::string_view word) const {
    if (word == "any") return Whom{.kind = Whom::Kind::kAny};
    if (word == "unknown") return Whom{.kind = Whom::Kind::kUnknown};
    ASSIGN_OR_RETURN(const std::optional<int64_t> uid, ParseUser(word));
    if (uid.has_value()) return Whom{.kind = Whom::Kind::kUid, .id = *uid};
    if (const auto number = After(word, "gid:")) {
      ASSIGN_OR_RETURN(const int64_t gid, ParseId(*number, word));
      return Whom{.kind = Whom::Kind::kGid, .id = gid};
    }
    if (const auto name = After(word, "group:")) {
      const std::optional<int64_t> gid = accounts_.group(std::string(*name));
      if (!gid.has_value()) {
        return Wrong(StrCat("this node has no group ", Shown(*name), "; name one, or write gid:N"));
      }
      return Whom{.kind = Whom::Kind::kGid, .id = *gid};
    }
    if (const auto name = After(word, "cn:")) return Text(Whom::Kind::kCommonName, *name, word);
    if (const auto name = After(word, "dns:")) return Text(Whom::Kind::kDnsName, *name, word);
    if (const auto id = After(word, kSpiffePrefix)) {
      // A trust domain that is only begun would let in other domains.
      if (id->find('/') == std::string_view::npos || id->front() == '/') {
        return Wrong(StrCat(Shown(word),
                            " names no whole trust domain; write "
                            "spiffe://DOMAIN/PATH, or spiffe://DOMAIN/*"));
      }
      return Text(Whom::Kind::kSpiffeId, word, word);
    }
    return Wrong(StrCat(Shown(word),
                        " is not a principal; write uid:N, user:NAME, gid:N, group:NAME, "
                        "cn:NAME, dns:NAME, spiffe://DOMAIN/PATH, any or unknown"));
  }

  static absl::StatusOr<Whom> Text(Whom::Kind kind, std::string_view text, std::string_view word) {
    const bool prefix = text.ends_with('*');
    if (prefix) text.remove_suffix(1);
    if (text.empty() || text.find('*') != std::string_view::npos) {
      return Wrong(StrCat(Shown(word),
                          " is too wide; `*` may stand once, at the end, behind "
                          "something. For everybody write any"));
    }
    return Whom{.kind = kind, .text = std::string(text), .prefix = prefix};
  }

  static absl::StatusOr<Verbs> ParseVerbs(std::string_view word) {
    Verbs verbs;
    if (word == "all") return verbs.set();
    while (true) {
      const size_t comma = word.find(',');
      const std::string_view name = word.substr(0, comma);
      const std::optional<Verb> verb = VerbFromString(name);
      if (!verb.has_value()) {
        std::string known = "all";
        for (int i = 0; i < kVerbCount; ++i) {
          StrAppend(&known, ", ", ToString(static_cast<Verb>(i)));
        }
        return Wrong(StrCat(Shown(name), " is not a verb; there are ", known,
                            ", with commas and no spaces between them"));
      }
      verbs.set(static_cast<size_t>(*verb));
      if (comma == std::string_view::npos) return verbs;
      word.remove_prefix(comma + 1);
    }
  }

  absl::StatusOr<Selector> ParseSelector(std::string_view word) const {
    if (word == "all") return Selector{.kind = Selector::Kind::kAll};
    if (word == "own") return Selector{.kind = Selector::Kind::kOwn};
    ASSIGN_OR_RETURN(const std::optional<int64_t> uid, ParseUser(word));
    if (uid.has_value()) return Selector{.kind = Selector::Kind::kUid, .uid = *uid};
    const auto job = After(word, "job:");
    const auto pod_namespace = After(word, "namespace:");
    const std::string_view text = job.value_or(pod_namespace.value_or(""));
    // An empty one would select whatever belongs to no job.
    if (text.empty() || text.find('*') != std::string_view::npos) {
      return Wrong(StrCat(Shown(word),
                          " selects nothing; write own, uid:N, user:NAME, job:ID, "
                          "namespace:NAME or all"));
    }
    return Selector{.kind = job.has_value() ? Selector::Kind::kJob : Selector::Kind::kNamespace,
                    .text = std::string(text)};
  }

  const std::vector<std::string> words_;
  const AccountNames& accounts_;
};

// The words of a line, up to a comment.
absl::StatusOr<std::vector<std::string>> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  size_t i = 0;
  while (true) {
    while (i < line.size() && line[i] == ' ') ++i;
    if (i == line.size() || line[i] == '#') return words;
    if (line[i] == '"') {
      const size_t end = line.find('"', i + 1);
      if (end == std::string_view::npos) return Wrong("a quote is not closed; add a \"");
      words.emplace_back(line.substr(i + 1, end - i - 1));
      i = end + 1;
      continue;
    }
    const size_t end = std::min(line.find_first_of(" #\"", i), line.size());
    words.emplace_back(line.substr(i, end - i));
    i = end;
  }
}

// As getpwnam_r() and getgrnam_r() want to be called.
template <typename Entry, typename Lookup, typename Id>
std::optional<int64_t> LookUp(const std::string& name, Lookup lookup, Id id) {
  Entry entry{};
  Entry* found = nullptr;
  std::vector<char> buffer(4096);
  while (lookup(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == ERANGE &&
         buffer.size() < kMaxPolicyBytes) {
    buffer.resize(buffer.size() * 2);
  }
  if (found == nullptr) return std::nullopt;
  return static_cast<int64_t>(entry.*id);
}

}  // namespace

AccountNames AccountNames::OfThisMachine() {
  return {
      .user =
          [](const std::string& name) { return LookUp<passwd>(name, getpwnam_r, &passwd::pw_uid); },
      .group =
          [](const std::string& name) {
            return LookUp<::group>(name, getgrnam_r, &::group::gr_gid);
          }};
}

absl::StatusOr<Policy> ParsePolicy(std::string_view text, std::string_view name,
                                   const AccountNames& accounts) {
  if (text.size() > kMaxPolicyBytes) {
    return Wrong(StrCat(name, ": longer than ", kMaxPolicyBytes >> 10,
                        " KiB; give groups of "
                        "people a group and name that"));
  }
  std::vector<Rule> rules;
  std::vector<Mapping> mappings;
  const auto parse_line = [&](std::string_view line, int /*number*/) -> absl::Status {
    std::string clean(line);
    std::ranges::replace(clean, '\t', ' ');
    if (!IsPrintableUtf8(clean)) {
      return Wrong("characters that are not text; save the file as UTF-8");
    }
    ASSIGN_OR_RETURN(std::vector<std::string> words, WordsOf(clean));
    if (words.empty()) return absl::OkStatus();
    const std::string first = words[0];
    const LineParser parser(std::move(words), accounts);
    if (first == "map") {
      ASSIGN_OR_RETURN(mappings.emplace_back(), parser.ParseMapping());
    } else if (first == "allow" || first == "deny") {
      ASSIGN_OR_RETURN(rules.emplace_back(), parser.ParseRule());
    } else {
      return Wrong(StrCat(Shown(first), " begins no rule; a line begins with allow, deny or map"));
    }
    if (std::ssize(rules) + std::ssize(mappings) > kMaxRules) {
      return Wrong(StrCat("more than ", kMaxRules, " rules; give groups of people a group"));
    }
    return absl::OkStatus();
  };
  // A quoted word may contain '#'.
  RETURN_IF_ERROR(ForEachLine(text, StrCat(name, ":"), Comments::kKept, parse_line));
  const int64_t count = std::ssize(rules) + std::ssize(mappings);
  return Policy{.rules = std::make_shared<PolicyRules>(std::move(rules), std::move(mappings)),
                .rule_count = count};
}

}  // namespace profd::access
