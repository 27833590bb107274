#include "cli/captures/node_source.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/failed_writes.h"
#include "cli/base/flags.h"
#include "cli/base/hostlist.h"
#include "cli/client/endpoints.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

constexpr std::string_view kDnsPrefix = "dns:";
constexpr size_t kMostListBytes = size_t{1} << 20;

// A node before it is known whether its host alone names it.
struct Candidate {
  std::string host;
  std::string address;
  std::string server_name = {};
  bool is_named = false;  // `host` is a name that was given to the address.
};

absl::Status NoNode(std::string_view item, std::string_view why) {
  const std::string shown = item.empty() ? std::string() : ForDisplay(item, 120);
  return UsageError(StrCat("--nodes: '", shown, "': ", why));
}

absl::StatusOr<int> ParsePort(std::string_view item, std::string_view text) {
  const auto port = ParseInt(text);
  if (!port.ok() || *port < 1 || *port > 65535) return NoNode(item, "a port is 1 to 65535");
  return static_cast<int>(*port);
}

bool IsUnixPath(std::string_view text) {
  return text.starts_with("unix:") || text.find('/') != std::string_view::npos;
}

absl::StatusOr<Candidate> UnixNode(std::string_view item, std::string_view text) {
  std::string_view path = text;
  if (path.starts_with("unix:")) path.remove_prefix(5);
  if (path.empty() || !IsPrintableUtf8(path)) return NoNode(item, "no path of a socket");
  return Candidate{std::string(path), StrCat("unix:", path)};
}

// "[fd00::7]:7000": a bracket that holds an address is no range.
std::optional<std::string_view> Ipv6In(std::string_view item) {
  const size_t close = item.find(']');
  if (!item.starts_with('[') || close == std::string_view::npos) return std::nullopt;
  const std::string_view inside = item.substr(1, close - 1);
  if (inside.find(':') == std::string_view::npos) return std::nullopt;
  return inside;
}

absl::StatusOr<Candidate> Ipv6Node(std::string_view item, std::string_view address) {
  in6_addr parsed{};
  if (inet_pton(AF_INET6, std::string(address).c_str(), &parsed) != 1) {
    return NoNode(item, "no IPv6 address");
  }
  std::string_view rest = item.substr(address.size() + 2);
  int port = kDefaultPort;
  if (!rest.empty()) {
    if (rest.front() != ':') return NoNode(item, "expected ':PORT' after the address");
    ASSIGN_OR_RETURN(port, ParsePort(item, rest.substr(1)));
  }
  std::string host = StrCat("[", address, "]");
  return Candidate{host, StrCat(host, ":", port)};
}

absl::Status AppendHosts(std::string_view item, std::vector<Candidate>& out) {
  std::string_view hosts = item;
  int port = kDefaultPort;
  const size_t colon = item.rfind(':');
  if (colon != std::string_view::npos) {
    ASSIGN_OR_RETURN(port, ParsePort(item, item.substr(colon + 1)));
    hosts = item.substr(0, colon);
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandHostlist(hosts));
  if (names.empty()) return NoNode(item, "it names no host");
  for (std::string& name : names) {
    std::string address = StrCat(name, ":", port);
    out.push_back({std::move(name), std::move(address)});
  }
  return absl::OkStatus();
}

// A path may have any character; a name has no '/', and after it comes a '='.
bool HasName(std::string_view item) {
  const size_t equals = item.find('=');
  return equals != std::string_view::npos && item.find('/') > equals;
}

absl::Status AppendItem(std::string_view item, std::vector<Candidate>& out);

absl::Status AppendNamed(std::string_view item, size_t equals, std::vector<Candidate>& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandHostlist(item.substr(0, equals)));
  const std::string_view address = item.substr(equals + 1);
  if (names.size() != 1 || HasName(address)) {
    return NoNode(item, "NAME=ADDRESS gives one address one name");
  }
  std::vector<Candidate> named;
  RETURN_IF_ERROR(AppendItem(address, named));
  if (named.size() != 1) return NoNode(item, "NAME=ADDRESS gives one address one name");
  named.front().host = names.front();
  named.front().is_named = true;
  out.push_back(std::move(named.front()));
  return absl::OkStatus();
}

absl::Status AppendItem(std::string_view item, std::vector<Candidate>& out) {
  if (HasName(item)) return AppendNamed(item, item.find('='), out);
  if (IsUnixPath(item)) {
    ASSIGN_OR_RETURN(out.emplace_back(), UnixNode(item, item));
    return absl::OkStatus();
  }
  if (const auto address = Ipv6In(item)) {
    ASSIGN_OR_RETURN(out.emplace_back(), Ipv6Node(item, *address));
    return absl::OkStatus();
  }
  return AppendHosts(item, out);
}

absl::Status AppendDns(std::string_view item, std::vector<Candidate>& out) {
  std::string_view name = item.substr(kDnsPrefix.size());
  int port = kDefaultPort;
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    ASSIGN_OR_RETURN(port, ParsePort(item, name.substr(colon + 1)));
    name = name.substr(0, colon);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandHostlist(name));
  if (names.size() != 1) return NoNode(item, "dns: takes one name");

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(names.front().c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  if (error != 0) {
    return LocalFailure(absl::NotFoundError(
        StrCat("--nodes: '", ForDisplay(item, 120), "': ", gai_strerror(error))));
  }
  // One family: a node of two would be asked twice.
  const auto is_v4 = [](const addrinfo& info) { return info.ai_family == AF_INET; };
  bool has_v4 = false;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) has_v4 |= is_v4(*at);
  std::set<std::string> hosts;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (is_v4(*at) != has_v4) continue;
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    hosts.insert(has_v4 ? std::string(text.data()) : StrCat("[", text.data(), "]"));
  }
  for (const std::string& host : hosts) {
    // The certificate has the service's name, not the address of one node of it.
    out.push_back({host, StrCat(host, ":", port), names.front()});
  }
  return absl::OkStatus();
}

absl::Status AppendFile(std::string_view item, std::vector<Candidate>& out) {
  const std::string path(item.substr(1));
  const absl::StatusOr<std::string> text = ReadUpTo(kMostListBytes + 1, path);
  if (!text.ok()) {
    return LocalFailure(
        absl::NotFoundError(StrCat("--nodes: ", FromAbsl(text.status().message()))));
  }
  if (text->size() > kMostListBytes) {
    return NoNode(item, StrCat("a list of nodes has at most ", kMostListBytes, " bytes"));
  }
  const auto take = [&out](std::string_view line, int /*number*/) -> absl::Status {
    for (const std::string_view node : SplitHostlist(line)) {
      // A file in a file could name itself.
      RETURN_IF_ERROR(node.starts_with('@') ? NoNode(node, "a file of nodes names no other")
                      : node.starts_with(kDnsPrefix) ? AppendDns(node, out)
                                                     : AppendItem(node, out));
    }
    return absl::OkStatus();
  };
  const absl::Status status =
      ForEachLine(*text, StrCat(ForDisplay(path, 1000), ":"), Comments::kAnywhere, take);
  return status.ok() ? status : UsageError(std::string(status.message()));
}

// Drops addresses named before, and gives every node a name of its own.
absl::StatusOr<std::vector<NamedNode>> Named(std::string_view text,
                                             std::vector<Candidate> candidates) {
  if (candidates.empty()) return NoNode(text, "it names no node");
  std::vector<NamedNode> nodes;
  std::map<std::string, int> hosts;
  std::set<std::string> addresses;
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return !addresses.insert(candidate.address).second;
  });
  for (const Candidate& candidate : candidates) ++hosts[candidate.host];
  std::set<std::string> names;
  for (Candidate& candidate : candidates) {
    // Daemons on one host differ by port only, so each goes by its address.
    const bool repeats = hosts[candidate.host] > 1;
    std::string name = repeats && !candidate.is_named ? candidate.address : candidate.host;
    if (!names.insert(name).second) return NoNode(name, "names two addresses");
    nodes.push_back(
        {std::move(name), std::move(candidate.address), std::move(candidate.server_name)});
  }
  if (nodes.size() > kMaxNodes) {
    return NoNode(text, StrCat("these are ", nodes.size(), " nodes; at most ", kMaxNodes,
                               " can be asked at once"));
  }
  return nodes;
}

absl::StatusOr<std::vector<NamedNode>> Nodes(std::string_view text, bool may_look_up) {
  std::vector<Candidate> candidates;
  for (const std::string_view item : SplitHostlist(text)) {
    const bool is_file = item.starts_with('@');
    const bool is_dns = item.starts_with(kDnsPrefix);
    if ((is_file || is_dns) && !may_look_up) return NoNode(item, "it has to be looked up");
    RETURN_IF_ERROR(is_file  ? AppendFile(item, candidates)
                    : is_dns ? AppendDns(item, candidates)
                             : AppendItem(item, candidates));
  }
  return Named(text, std::move(candidates));
}

// What a program of the site says, on stdout and stderr together.
struct ProgramOutput {
  int exit_code = 0;
  std::string text;
};

// Slurm's own programs give up after 10 s by default (MessageTimeout).
constexpr std::chrono::seconds kProgramPatience(30);

// Waits until `reading` has something, or its other end is closed. False: not until `until`.
bool AwaitInput(int reading, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waited = {.fd = reading, .events = POLLIN, .revents = 0};
    const int ready = poll(&waited, 1, std::max(0, static_cast<int>(left.count())));
    if (ready < 0 && errno == EINTR) continue;
    return ready != 0;
  }
}

// NOT_FOUND: there is no such program on PATH. RESOURCE_EXHAUSTED: it writes too much.
// DEADLINE_EXCEEDED: it does not end, and was killed.
absl::StatusOr<ProgramOutput> RunSiteProgram(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(StrCat("pipe: ", std::strerror(errno)));
  }
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  pid_t child = 0;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  LetSignalsOfWritesEnd(attributes);
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::NotFoundError(StrCat("cannot run ", command.front(), ": ", std::strerror(error)));
  }
  writing.Reset();

  ProgramOutput answer;
  std::array<char, 4096> bytes{};
  const auto until = std::chrono::steady_clock::now() + kProgramPatience;
  while (answer.text.size() < kMostListBytes) {
    if (!AwaitInput(reading.get(), until)) {
      // It is not waited for: on a hung file system it may not even end then.
      kill(child, SIGKILL);
      return absl::DeadlineExceededError(
          StrCat(command.front(), " does not answer within ", kProgramPatience.count(), " s"));
    }
    const ssize_t got = read(reading.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.text.append(bytes.data(), static_cast<size_t>(got));
  }
  // A program that writes more is blocked in its write: this end of the pipe closes before the
  // wait.
  reading.Reset();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (answer.text.size() >= kMostListBytes) {
    return absl::ResourceExhaustedError(
        StrCat(command.front(), " writes more than ", kMostListBytes, " bytes"));
  }
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return answer;
}

}  // namespace

absl::StatusOr<std::vector<NamedNode>> ResolveNodes(std::string_view text) {
  return Nodes(text, /*may_look_up=*/true);
}

absl::StatusOr<std::vector<NamedNode>> ParseNodes(std::string_view text) {
  return Nodes(text, /*may_look_up=*/false);
}

absl::StatusOr<std::vector<NamedNode>> NodesOfSlurmJob(std::string_view job) {
  // A job or a task of an array. It becomes part of an argument, where squeue also takes lists.
  const bool is_job = !job.empty() && job.size() <= 32 && job.front() >= '0' &&
                      job.front() <= '9' &&
                      job.find_first_not_of("0123456789_+") == std::string_view::npos;
  if (!is_job) {
    return UsageError(StrCat("--job '", ForDisplay(job, 80),
                             "' is not a Slurm job; name its nodes with --nodes"));
  }
  const absl::StatusOr<ProgramOutput> answer =
      RunSiteProgram({"squeue", "--noheader", StrCat("--jobs=", job), "--format=%T %N"});
  if (!answer.ok()) {
    return LocalFailure(
        absl::NotFoundError(StrCat("--job ", job, ": where it runs only Slurm knows, and ",
                                   FromAbsl(answer.status().message()),
                                   "; name the nodes with --nodes, or one daemon with --address")));
  }
  const std::string said = ForDisplay(Trimmed(answer->text), 1000);
  if (answer->exit_code != 0) {
    return LocalFailure(absl::NotFoundError(StrCat("--job ", job, ": squeue says: ", said)));
  }
  std::string hosts;
  const auto take = [&hosts](std::string_view line, int /*number*/) {
    const size_t blank = line.find(' ');
    if (blank != std::string_view::npos && line.starts_with("RUNNING")) {
      StrAppend(&hosts, line.substr(blank + 1), "\n");
    }
    return absl::OkStatus();
  };
  ForEachLine(answer->text, "", Comments::kKept, take).IgnoreError();
  if (hosts.empty()) {
    return LocalFailure(absl::UnavailableError(
        StrCat("--job ", job, " runs nowhere", said.empty() ? "" : ": ", said)));
  }
  // Not ResolveNodes(): a program's output must not name files or look up names.
  return ParseNodes(hosts);
}

}  // namespace profd::cli
