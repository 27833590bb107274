// profctl run: starts a program with the client library as its injection, so that it becomes
// a target without a line of its own. Then profctl is that program: nothing stays behind.
#include <unistd.h>

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
// As shells have them.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// A variable that is set to nothing counts as not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Where the library may be, the likeliest first.
std::vector<fs::path> LibraryPlaces() {
  if (const std::string chosen = Variable("PROFD_CLIENT_LIB"); !chosen.empty()) return {chosen};
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path prefix = self.parent_path().parent_path();
    for (const char* folder : {"lib", PROFD_INSTALL_LIBDIR, "lib64"}) {
      places.push_back(prefix / folder / kLibraryName);
    }
  }
  places.push_back(fs::path(PROFD_INSTALL_FULL_LIBDIR) / kLibraryName);
  return places;
}

// Its path as children in other folders need it.
absl::StatusOr<std::string> FindLibrary() {
  const std::vector<fs::path> places = LibraryPlaces();
  std::vector<std::string> tried;
  for (const fs::path& place : places) {
    std::error_code error;
    const fs::path path = fs::canonical(place, error);
    if (!error && access(path.c_str(), R_OK) == 0) return path.string();
    tried.push_back(ForDisplay(place.lexically_normal().string(), 512));
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
          "to the client library: every process below it that uses CUDA, NVTX or the Python "
          "package "
          "is a target from its first such call on. Exit code, signals and standard streams are "
          "CMD's own. A variable that is set already stays, and stderr says what is missing for "
          "that.\n\n"
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
