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
#include "cli/command.h"
#include "cli/errors.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libprofd_client.so";
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

// Where the library may be, the likeliest first.
std::vector<fs::path> LibraryPlaces() {
  if (const std::string chosen = Variable("PROFD_CLIENT_LIB"); !chosen.empty()) return {chosen};
  std::vector<fs::path> places;
  if (const fs::path prefix = OwnPrefix(); !prefix.empty()) {
    for (const char* folder : {"lib", PROFD_INSTALL_LIBDIR, "lib64"}) {
      places.push_back(prefix / folder / kLibraryName);
    }
  }
  places.push_back(fs::path(PROFD_INSTALL_FULL_LIBDIR) / kLibraryName);
  return places;
}

// The folder that makes a Python watch for torch; empty: the Python package is not installed.
std::string FindPythonHook(const fs::path& library) {
  // In a wheel the library lies inside the package.
  std::vector<fs::path> packages = {library.parent_path().parent_path()};
  if (const fs::path prefix = OwnPrefix(); !prefix.empty()) {
    packages.push_back(prefix / PROFD_INSTALL_PYTHONDIR);
  }
  packages.push_back(fs::path(PROFD_INSTALL_FULL_PYTHONDIR));
  for (const fs::path& package : packages) {
    std::error_code error;
    const fs::path folder = fs::canonical(package / kPythonHook, error);
    if (!error && access((folder / kPythonHookFile).c_str(), R_OK) == 0) return folder.string();
  }
  return "";
}

// Its path as children in other folders need it.
absl::StatusOr<std::string> FindLibrary() {
  const std::vector<fs::path> places = LibraryPlaces();
  std::vector<std::string> tried;
  for (const fs::path& place : places) {
    std::error_code error;
    const fs::path path = fs::canonical(place, error);
    if (!error && access(path.c_str(), R_OK) == 0) return path.string();
    std::string shown = ForDisplay(place.lexically_normal().string(), 512);
    if (std::ranges::find(tried, shown) == tried.end()) tried.push_back(std::move(shown));
  }
  return LocalFailure(
      absl::NotFoundError(StrCat("there is no ", kLibraryName, "; looked for ",
                                 absl::StrJoin(tried, ", "), ". PROFD_CLIENT_LIB can name it")));
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

// Python takes the first sitecustomize that it finds; ours then imports the one behind it.
void HookPython(Invocation& invocation, const std::string& library) {
  const std::string hook = FindPythonHook(library);
  if (hook.empty()) {
    invocation.Note(
        "profctl: the Python package is not installed; PyTorch is recorded only of programs that "
        "import it\n");
    return;
  }
  const std::string before = Variable("PYTHONPATH");
  if (before == hook || before.starts_with(hook + ":")) return;
  setenv("PYTHONPATH", before.empty() ? hook.c_str() : StrCat(hook, ":", before).c_str(), 1);
}

void Preload(const std::string& library) {
  const std::string before = Variable("LD_PRELOAD");
  setenv("LD_PRELOAD", before.empty() ? library.c_str() : StrCat(library, ":", before).c_str(), 1);
  setenv("PROFD_START", "1", 1);
}

// Returns only if it could not be done.
int Become(Invocation& invocation, std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  invocation.Note(StrCat("profctl: ", ForDisplay(words[0], 512), ": ", std::strerror(error), "\n"));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string library, FindLibrary());
  if (const auto folder = invocation.flags().Get("socket-dir")) {
    RETURN_IF_ERROR(SetSocketFolder(*folder));
  }
  setenv("PROFD_CLIENT_LIB", library.c_str(), 1);
  Offer(invocation, "CUDA_INJECTION64_PATH", library,
        "CUDA alone does not make a process a target");
  Offer(invocation, "NVTX_INJECTION64_PATH", library, "NVTX ranges are not recorded");
  HookPython(invocation, library);
  if (invocation.flags().Has("preload")) Preload(library);
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
          "The library is the one that PROFD_CLIENT_LIB names, else the one installed with "
          "profctl.\n\n"
          "Exit codes of its own: 127, there is no CMD; 126, it cannot be executed; 1, there is no "
          "library.",
      .flags = {{.name = "socket-dir",
                 .value_name = "DIR",
                 .help = "The daemon's socket directory, for CMD (default: as PROFD_SOCKET_DIR "
                         "says, else /run/profd, else $XDG_RUNTIME_DIR/profd)",
                 .completes = Completes::kFile},
                {.name = "preload",
                 .help = "Also load the library into every process below CMD at its start "
                         "(LD_PRELOAD), shells and all; each is a target from then on, also "
                         "without CUDA and NVTX"}},
      .examples = {{"profctl run -- python train.py", "A training script"},
                   {"profctl run torchrun --nproc-per-node 8 train.py", "All ranks of a node"}},
      .min_arguments = 1,
      .max_arguments = std::numeric_limits<size_t>::max(),
      .completes = Completes::kProgram,
      .uses_daemon = false,
      .run = &Run,
      .is_launcher = true};
}

}  // namespace profd::cli
