#include "cli/client/contexts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "cli/base/errors.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/base/unique_fd.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd::cli {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxContexts = 1000;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxValueBytes = 4096;

// The keys of a context, in the order in which they are written.
struct Key {
  std::string_view name;
  std::string& (*of)(Context&);
};

ClientTls& TlsOf(Context& context) {
  if (!context.tls.has_value()) context.tls.emplace();
  return *context.tls;
}

constexpr std::array<Key, 6> kKeys = {{
    {"address", [](Context& c) -> std::string& { return c.address; }},
    {"nodes", [](Context& c) -> std::string& { return c.nodes; }},
    {"tls-ca", [](Context& c) -> std::string& { return TlsOf(c).ca_file; }},
    {"tls-cert", [](Context& c) -> std::string& { return TlsOf(c).certificate_file; }},
    {"tls-key", [](Context& c) -> std::string& { return TlsOf(c).key_file; }},
    {"tls-server-name", [](Context& c) -> std::string& { return TlsOf(c).server_name; }},
}};

// Line by line, into `file_`.
class ContextParser {
 public:
  explicit ContextParser(std::string_view path) : path_(path) {}

  absl::StatusOr<ContextFile> Run(std::string_view text) {
    RETURN_IF_ERROR(ForEachLine(
        text, StrCat(path_, ":"), Comments::kWholeLines, [this](std::string_view line, int number) {
          return line.front() == '[' ? TakeHeading(line, number) : TakeSetting(line);
        }));
    return Finish();
  }

 private:
  static absl::Status Wrong(std::string_view what) {
    return absl::InvalidArgumentError(ToAbsl(what));
  }

  absl::Status TakeSetting(std::string_view line) {
    const auto setting = SplitSetting(line);
    if (!setting.has_value()) return Wrong("expected [NAME] or `name = value`");
    const auto& [name, value] = *setting;
    if (value.empty() || value.size() > kMaxValueBytes || !IsPrintableUtf8(value)) {
      return Wrong(
          StrCat(ForDisplay(name, 80), " must have 1 to ", kMaxValueBytes, " printable bytes"));
    }
    return file_.contexts.empty() ? TakeGlobal(name, value) : TakeKey(name, value);
  }

  absl::Status TakeHeading(std::string_view line, int number) {
    const std::string_view name = line.substr(1, line.size() - 1 - (line.ends_with(']') ? 1 : 0));
    if (!line.ends_with(']') || !IsContextName(name)) {
      return Wrong("a context is [NAME]: letters, digits, '.', '_', '-', at most 64");
    }
    if (FindContext(file_, name) != nullptr) return Wrong(StrCat("a second context ", name));
    if (file_.contexts.size() == kMaxContexts) return Wrong("more than 1000 contexts");
    file_.contexts.emplace_back().name = std::string(name);
    heading_lines_.push_back(number);
    return absl::OkStatus();
  }

  absl::Status TakeGlobal(std::string_view name, std::string_view value) {
    if (name != "current") {
      return Wrong(StrCat(ForDisplay(name, 80),
                          " stands before the first [NAME], where only `current` may"));
    }
    if (!file_.current.empty()) return Wrong("a second `current`");
    file_.current = std::string(value);
    return absl::OkStatus();
  }

  absl::Status TakeKey(std::string_view name, std::string_view value) {
    const auto key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end()) {
      return Wrong(StrCat("no key '", ForDisplay(name, 80),
                          "': there are address, nodes, tls-ca, tls-cert, tls-key and "
                          "tls-server-name"));
    }
    std::string& place = key->of(file_.contexts.back());
    if (!place.empty()) return Wrong(StrCat("a second ", name));
    place = std::string(value);
    return absl::OkStatus();
  }

  absl::StatusOr<ContextFile> Finish() {
    for (size_t i = 0; i < file_.contexts.size(); ++i) {
      RETURN_IF_ERROR(CheckContext(
          file_.contexts[i],
          StrCat(path_, ":", heading_lines_[i], ": context ", file_.contexts[i].name)));
    }
    return std::move(file_);
  }

  const std::string_view path_;
  ContextFile file_;
  std::vector<int> heading_lines_;
};

absl::Status System(std::string_view what, const std::filesystem::path& path) {
  return LocalFailure(
      absl::ErrnoToStatus(errno, ToAbsl(StrCat("cannot ", what, " ", path.string()))));
}

}  // namespace

const Context* FindContext(const ContextFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.contexts, name, &Context::name);
  return found == file.contexts.end() ? nullptr : &*found;
}

bool IsContextName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

absl::Status CheckContext(const Context& context, std::string_view where) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(StrCat(where, ": ", what));
  };
  if (context.address.empty() == context.nodes.empty()) {
    return wrong("must have either an address or nodes");
  }
  if (context.tls.has_value()) {
    const ClientTls& tls = *context.tls;
    if (tls.ca_file.empty()) return wrong("needs tls-ca: who signs for daemons");
    if (tls.certificate_file.empty() != tls.key_file.empty()) {
      return wrong("tls-cert and tls-key go together: a certificate and its key");
    }
    for (const std::string* path : {&tls.ca_file, &tls.certificate_file, &tls.key_file}) {
      if (!path->empty() && path->front() != '/') {
        return wrong(StrCat(ForDisplay(*path, 120), " must be an absolute path"));
      }
    }
  }
  if (context.address.empty()) return absl::OkStatus();
  const auto endpoint = ParseAddress(context.address, std::string(where), context.tls);
  // It says where, too.
  return endpoint.ok() ? absl::OkStatus() : absl::InvalidArgumentError(endpoint.status().message());
}

absl::StatusOr<ContextFile> ParseContexts(std::string_view text, std::string_view path) {
  return ContextParser(path).Run(text);
}

std::string FormatContexts(const ContextFile& file) {
  std::string text =
      "# The contexts of profctl; `profctl context` changes them and `profctl context --help` says "
      "what is in it.\n";
  if (!file.current.empty()) StrAppend(&text, "current = ", file.current, "\n");
  for (Context context : file.contexts) {
    StrAppend(&text, "\n[", context.name, "]\n");
    const bool has_tls = context.tls.has_value();
    for (const Key& key : kKeys) {
      if (!has_tls && key.name.starts_with("tls-")) continue;
      const std::string& value = key.of(context);
      if (!value.empty()) StrAppend(&text, key.name, " = ", value, "\n");
    }
  }
  return text;
}

std::filesystem::path ContextsPath(const GetEnv& getenv) {
  const auto value = [&](const char* name) -> std::filesystem::path {
    const char* text = getenv(name);
    // The XDG specification has relative paths ignored.
    return text == nullptr || *text != '/' ? "" : text;
  };
  if (const auto config = value("XDG_CONFIG_HOME"); !config.empty()) return config / "profd/config";
  if (const auto home = value("HOME"); !home.empty()) return home / ".config/profd/config";
  return {};
}

absl::StatusOr<ContextFile> ReadContexts(const std::filesystem::path& path) {
  if (path.empty()) return ContextFile();
  // O_NONBLOCK: opening a FIFO would wait for a writer. It is refused below.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return ContextFile();
    return System("open", path);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return System("stat", path);
  if (!S_ISREG(info.st_mode) || (info.st_uid != geteuid() && info.st_uid != 0) ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return LocalFailure(absl::FailedPreconditionError(
        StrCat(path.string(),
               " must be a file of yours that only you can write, for it says "
               "whom to trust; chmod 600 it")));
  }
  const absl::StatusOr<std::string> text = ReadUpTo(kMaxFileBytes + 1, path, fd.get());
  if (!text.ok()) return LocalFailure(text.status());
  if (text->size() > kMaxFileBytes) {
    return LocalFailure(absl::InvalidArgumentError(
        StrCat(path.string(), " is larger than ", kMaxFileBytes, " bytes: no file of contexts")));
  }
  absl::StatusOr<ContextFile> file = ParseContexts(*text, path.string());
  if (!file.ok()) return LocalFailure(file.status());
  return file;
}

absl::Status WriteContexts(const std::filesystem::path& path, const ContextFile& file) {
  if (path.empty()) {
    return LocalFailure(absl::FailedPreconditionError(
        "no place for contexts: neither XDG_CONFIG_HOME nor HOME is an absolute path"));
  }
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  // Renamed over the old file: readers see either, and a full disk loses neither. A link stays: the
  // file that it leads to is replaced, which may be in a repository of the user's settings.
  const absl::StatusOr<std::unique_ptr<exporter::ByteSink>> sink = exporter::OpenFileSink(path);
  if (!sink.ok()) return LocalFailure(sink.status());
  RETURN_IF_ERROR(LocalFailure((*sink)->Append(FormatContexts(file))));
  return LocalFailure((*sink)->Finish());
}

}  // namespace profd::cli
