// profctl run: starts a program with the client library as its injection, and Python's hook for
// torch, so that it becomes a target without a line of its own. Then profctl is that program:
// nothing stays behind.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_join.h"
#include "cli/base/errors.h"
#include "cli/base/failed_writes.h"
#include "cli/base/program_file.h"
#include "cli/commands/command.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libprofd_client.so";
constexpr char kPreloadName[] = "libprofd_preload.so";
// The folder that makes a Python watch for torch, in the package's own, and the file it takes.
constexpr char kPythonHook[] = "profd/_inject";
constexpr char kPythonHookFile[] = "sitecustomize.py";
// As shells have them.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// A variable that is set to nothing counts as not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// What bin/profctl and the rest were installed, or built, below; empty: not known.
fs::path OwnPrefix() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path().parent_path();
}

// Where a library that was installed with profctl may be, the likeliest first.
std::vector<fs::path> InstalledPlaces(const char* name) {
  std::vector<fs::path> places;
  if (const fs::path prefix = OwnPrefix(); !prefix.empty()) {
    for (const char* folder : {"lib", PROFD_INSTALL_LIBDIR, "lib64"}) {
      places.push_back(prefix / folder / name);
    }
  }
  places.push_back(fs::path(PROFD_INSTALL_FULL_LIBDIR) / name);
  return places;
}

// Why a file cannot be read; empty: it can be, or there is none.
std::string WhyUnreadable(const fs::path& path) {
  if (access(path.c_str(), R_OK) == 0 || errno == ENOENT || errno == ENOTDIR) return "";
  return std::strerror(errno);
}

// The folder that makes a Python watch for torch. NOT_FOUND: the Python package is not installed;
// PERMISSION_DENIED: it is, and cannot be read.
absl::StatusOr<std::string> FindPythonHook(const fs::path& library) {
  // In a wheel the library lies inside the package.
  std::vector<fs::path> packages = {library.parent_path().parent_path()};
  if (const fs::path prefix = OwnPrefix(); !prefix.empty()) {
    packages.push_back(prefix / PROFD_INSTALL_PYTHONDIR);
  }
  packages.push_back(fs::path(PROFD_INSTALL_FULL_PYTHONDIR));
  absl::Status unreadable;
  for (const fs::path& package : packages) {
    std::error_code error;
    const fs::path folder = fs::canonical(package / kPythonHook, error);
    if (!error && access((folder / kPythonHookFile).c_str(), R_OK) == 0) return folder.string();
    const fs::path file = package / kPythonHook / kPythonHookFile;
    const std::string why = WhyUnreadable(file);
    if (why.empty() || !unreadable.ok()) continue;
    unreadable = absl::PermissionDeniedError(
        StrCat("cannot read ", ForDisplay(file.lexically_normal().string(), 512), ": ", why));
  }
  if (!unreadable.ok()) return unreadable;
  return absl::NotFoundError("the Python package is not installed");
}

// The path of the first of `places` that can be read, as children in other folders need it.
// `remedy` ends the message of NOT_FOUND.
absl::StatusOr<std::string> FindFirst(const char* name, const std::vector<fs::path>& places,
                                      std::string_view remedy) {
  std::vector<std::string> tried;
  for (const fs::path& place : places) {
    std::error_code error;
    const fs::path path = fs::canonical(place, error);
    if (!error && access(path.c_str(), R_OK) == 0) return path.string();
    std::string shown = ForDisplay(place.lexically_normal().string(), 512);
    if (const std::string why = WhyUnreadable(place); !why.empty()) StrAppend(&shown, ": ", why);
    if (std::ranges::find(tried, shown) == tried.end()) tried.push_back(std::move(shown));
  }
  return LocalFailure(absl::NotFoundError(
      StrCat("there is no ", name, "; looked for ", absl::StrJoin(tried, ", "), ". ", remedy)));
}

absl::StatusOr<std::string> FindLibrary() {
  std::vector<fs::path> places = InstalledPlaces(kLibraryName);
  if (const std::string chosen = Variable("PROFD_CLIENT_LIB"); !chosen.empty()) places = {chosen};
  return FindFirst(kLibraryName, places, "PROFD_CLIENT_LIB can name it");
}

// Sets the variable unless it is set already. `unseen` is what is not recorded then.
void Offer(Invocation& invocation, const char* name, const std::string& value,
           std::string_view unseen) {
  const std::string before = Variable(name);
  if (before.empty()) {
    setenv(name, value.c_str(), 1);
  } else if (before != value) {
    invocation.Note(StrCat("profctl: ", name, " is ", ForDisplay(before, 512),
                           " already and stays so; ", unseen, "\n"));
  }
}

absl::Status SetSocketFolder(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder, error);
  if (error) return UsageError(StrCat("--socket-dir: ", error.message()));
  setenv("PROFD_SOCKET_DIR", path.c_str(), 1);
  return absl::OkStatus();
}

// Python takes the first sitecustomize that it finds; ours then imports the one after it.
void HookPython(Invocation& invocation, const std::string& library) {
  const absl::StatusOr<std::string> hook = FindPythonHook(library);
  if (!hook.ok()) {
    invocation.Note(StrCat("profctl: ", FromAbsl(hook.status().message()),
                           "; PyTorch is recorded only of programs that import profd\n"));
    return;
  }
  const std::string before = Variable("PYTHONPATH");
  if (before == *hook || before.starts_with(*hook + ":")) return;
  setenv("PYTHONPATH", before.empty() ? hook->c_str() : StrCat(*hook, ":", before).c_str(), 1);
}

// Puts `value` before or after what the variable has, unless it is there already.
void Extend(const char* name, const std::string& value, bool is_first) {
  const std::string before = Variable(name);
  if (StrCat(":", before, ":").find(StrCat(":", value, ":")) != std::string::npos) return;
  const std::string both = is_first ? StrCat(value, ":", before) : StrCat(before, ":", value);
  setenv(name, before.empty() ? value.c_str() : both.c_str(), 1);
}

// Reaches the command and every process below it. What is preloaded is not the library but a
// loader of it that does no harm in programs without glibc (client_lib/preload/preload.cc).
absl::Status Preload(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string loader,
                   FindFirst(kPreloadName, InstalledPlaces(kPreloadName),
                             "Install it with profctl, or leave out --preload"));
  if (loader.find_first_of(" :") != std::string::npos) {
    return LocalFailure(absl::InvalidArgumentError(
        StrCat("LD_PRELOAD cannot name '", ForDisplay(loader, 512),
               "', which has a blank or a colon; install profd in another folder")));
  }
  // Last: an allocator or a sanitizer that is there stays the first library.
  Extend("LD_PRELOAD", loader, /*is_first=*/false);
  // A program built with AddressSanitizer does not start after any preloaded library otherwise.
  Extend("ASAN_OPTIONS", "verify_asan_link_order=0", /*is_first=*/true);
  if (invocation.flags().Has("register-all")) setenv("PROFD_START", "1", 1);
  if (const std::string why = PreloadObstacle(invocation.arguments().front()); !why.empty()) {
    invocation.Note(StrCat("profctl: ", why, "; --preload has no effect on it\n"));
  }
  return absl::OkStatus();
}

// Returns only if it could not be done.
int Become(Invocation& invocation, std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  RestoreSignalsOfWrites();
  execvp(arguments[0], arguments.data());
  const int error = errno;
  invocation.Note(StrCat("profctl: ", ForDisplay(words[0], 512), ": ", std::strerror(error), "\n"));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

absl::StatusOr<int> RunProgram(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string library, FindLibrary());
  if (const auto folder = invocation.flags().Get("socket-dir")) {
    RETURN_IF_ERROR(SetSocketFolder(*folder));
  }
  setenv("PROFD_CLIENT_LIB", library.c_str(), 1);
  Offer(invocation, "CUDA_INJECTION64_PATH", library,
        "CUDA alone does not make a process a target");
  Offer(invocation, "NVTX_INJECTION64_PATH", library, "NVTX ranges are not recorded");
  HookPython(invocation, library);
  if (invocation.flags().Has("preload")) {
    RETURN_IF_ERROR(Preload(invocation));
  } else if (invocation.flags().Has("register-all")) {
    return UsageError("--register-all needs --preload");
  }
  return Become(invocation, invocation.arguments());
}

}  // namespace

Command RunCommand() {
  return {
      .name = "run",
      .summary = "Start a program that can then be captured, unmodified",
      .arguments = "[--] CMD [ARG...]",
      .description =
          "Becomes CMD, with CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH and PROFD_CLIENT_LIB set "
          "to the client library, and a folder put before PYTHONPATH: every process below it that "
          "uses CUDA, NVTX or the Python package, or imports torch, is a target from then on. Exit "
          "code, signals and standard streams are CMD's own. A variable that is set already stays, "
          "and stderr says what is missing for that.\n\n"
          "A Python that is told to look at no variables (python -I, -E or -S) does not learn of "
          "it; there the installed package does, or `import profd` and profd.init().\n\n"
          "Without a capture, a PyTorch step costs 2 us more. Torch before 2.1 has no hooks of "
          "optimizers: there an observer stays instead, and `profctl ps` says so. With torch 2.0 "
          "it costs about 0.5 us per node of a backward pass (7 % of a step of 100 small "
          "layers), with torch 1.13 nothing measurable.\n\n"
          "A process that has used the library has threads of it, and the kernel refuses such a "
          "process unshare(CLONE_NEWUSER), and setns() to a user or mount namespace. With "
          "--preload, the threads end before such a call and start again after it; a capture of "
          "that process ends then. Otherwise, make the call before the first use of the library, "
          "in a forked child, or between profd_stop_threads() and profd_restart_threads(). In "
          "a process that has imported torch, profd's Python package has a thread, too, also in "
          "forked children: there, another program has to make the call.\n\n"
          "A seccomp filter that a process sets for all its threads (SECCOMP_FILTER_FLAG_TSYNC) "
          "can end it for a system call of the library's threads. With --preload, these end "
          "before a filter that is set by syscall(), as libseccomp does it, if they can within "
          "3 s, and profiling is off in that process from then on; the thread of profd's Python "
          "package stays, and sleeps. Otherwise, set PROFD_DISABLE=1 there, or call "
          "profd_stop_threads() before the filter is set and profd_stay_stopped() after it.\n\n"
          "The library is the one that PROFD_CLIENT_LIB names, else the one installed with "
          "profctl.\n\n"
          "Exit codes of its own: 127, there is no CMD; 126, it cannot be executed; 1, there is no "
          "library.",
      .flags = {{.name = "socket-dir",
                 .value_name = "DIR",
                 .help = "The daemon's socket directory, for CMD (default: $PROFD_SOCKET_DIR, "
                         "/run/profd, or $XDG_RUNTIME_DIR/profd)",
                 .completes = Completes::kFile},
                {.name = "preload",
                 .help = "Also load the library into CMD and every process below it at its start "
                         "(LD_PRELOAD), for programs that look its functions up. It does nothing "
                         "until it is used. Static, setuid, and musl programs run as they are"},
                {.name = "register-all",
                 .help = "With --preload: every process is a target from its start, including "
                         "shells, and programs that use none of CUDA, NVTX, and PyTorch"}},
      .examples = {{"profctl run -- python train.py", "A training script"},
                   {"profctl run torchrun --nproc-per-node 8 train.py", "All ranks of a node"}},
      .min_arguments = 1,
      .max_arguments = std::numeric_limits<size_t>::max(),
      .completes = Completes::kProgram,
      .uses_daemon = false,
      .run = &RunProgram,
      .is_launcher = true};
}

}  // namespace profd::cli
