#include "cli/base/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

namespace fs = std::filesystem;

// A script's interpreter may be a script; the kernel follows as many.
constexpr int kMaxInterpreters = 5;
// Longer than the kernel reads of a "#!" line, and than the headers of an ELF file.
constexpr size_t kHeadBytes = 4096;
// What execvp() looks through if there is no PATH.
constexpr char kDefaultPath[] = "/bin:/usr/bin";

std::string OnPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const variable = std::getenv("PATH");
  std::string_view folders = variable == nullptr ? kDefaultPath : variable;
  while (true) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const fs::path folder = end == 0 ? fs::path(".") : fs::path(folders.substr(0, end));
    const std::string path = (folder / name).string();
    std::error_code error;
    if (access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, error)) return path;
    if (end == folders.size()) return "";
    folders.remove_prefix(end + 1);
  }
}

std::vector<std::string> Words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// What the "#!" line of a script starts: of `env`, the program that it looks for.
std::string Interpreter(std::string_view head) {
  const std::vector<std::string> words = Words(head.substr(2, head.find('\n') - 2));
  if (words.empty() || fs::path(words[0]).filename() != "env") {
    return words.empty() ? "" : words[0];
  }
  const auto program = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
    return !word.starts_with('-') && word.find('=') == std::string::npos;
  });
  return program == words.end() ? words[0] : *program;
}

struct Elf {
  Elf64_Half machine = EM_NONE;
  unsigned char file_class = ELFCLASSNONE;
  std::string loader;  // Empty: statically linked.
};

// The first bytes of `fd`, at most `size` from `offset`.
std::string ReadAt(const UniqueFd& fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = pread(fd.get(), bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return bytes;
}

// Empty if it is not an ELF file of this machine's byte order, or is damaged.
std::optional<Elf> ReadElf(const UniqueFd& fd, std::string_view head) {
  if (head.size() < sizeof(Elf64_Ehdr) || !head.starts_with(ELFMAG)) return std::nullopt;
  Elf64_Ehdr header;
  std::memcpy(&header, head.data(), sizeof header);
  Elf elf = {.machine = header.e_machine, .file_class = header.e_ident[EI_CLASS], .loader = ""};
  if (elf.file_class != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return elf;
  const std::string table = ReadAt(fd, header.e_phoff, size_t{header.e_phnum} * sizeof(Elf64_Phdr));
  for (size_t at = 0; at + sizeof(Elf64_Phdr) <= table.size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr segment;
    std::memcpy(&segment, table.data() + at, sizeof segment);
    if (segment.p_type != PT_INTERP) continue;
    elf.loader = ReadAt(fd, segment.p_offset, std::min<uint64_t>(segment.p_filesz, kHeadBytes));
    elf.loader.resize(std::strlen(elf.loader.c_str()));
  }
  return elf;
}

bool IsSameFile(const std::string& one, const std::string& other) {
  std::error_code error;
  return one == other || fs::equivalent(one, other, error);
}

// The kernel starts it with rights that its caller lacks: the loader then ignores LD_PRELOAD.
bool GainsRights(const UniqueFd& fd) {
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) return false;
  const bool as_user = (file.st_mode & S_ISUID) != 0 && file.st_uid != getuid();
  const bool as_group = (file.st_mode & S_ISGID) != 0 && file.st_gid != getgid();
  const bool has_capabilities =
      getuid() != 0 && fgetxattr(fd.get(), "security.capability", nullptr, 0) > 0;
  return as_user || as_group || has_capabilities;
}

std::string ElfObstacle(const Elf& elf, const UniqueFd& fd) {
  const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const std::optional<Elf> own = ReadElf(self, ReadAt(self, 0, kHeadBytes));
  if (!own.has_value()) return "";
  if (elf.file_class != own->file_class || elf.machine != own->machine) {
    return "is for another kind of machine than profctl";
  }
  if (elf.loader.empty()) return "is statically linked";
  if (!own->loader.empty() && !IsSameFile(elf.loader, own->loader)) {
    return StrCat("has the loader '", ForDisplay(elf.loader, 512), "', not glibc's '",
                  ForDisplay(own->loader, 512), "'");
  }
  return GainsRights(fd) ? "is setuid, setgid, or has capabilities" : "";
}

}  // namespace

std::string PreloadObstacle(std::string_view command) {
  std::string path = OnPath(std::string(command));
  for (int i = 0; i < kMaxInterpreters && !path.empty(); ++i) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return "";
    const std::string head = ReadAt(fd, 0, kHeadBytes);
    if (head.starts_with("#!")) {
      path = OnPath(Interpreter(head));
      continue;
    }
    const std::optional<Elf> elf = ReadElf(fd, head);
    const std::string why = elf.has_value() ? ElfObstacle(*elf, fd) : "";
    return why.empty() ? "" : StrCat("'", ForDisplay(path, 512), "' ", why);
  }
  return "";
}

}  // namespace profd::cli
