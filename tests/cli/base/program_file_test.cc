// What would be started, and whether LD_PRELOAD would reach it: files of our own making.
#include "cli/base/program_file.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProgramFileTest : public ::testing::Test {
 protected:
  ProgramFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "profd_test_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ProgramFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), 0755);
    return path;
  }

  static Elf64_Ehdr OwnHeader() {
    Elf64_Ehdr header;
    std::ifstream("/proc/self/exe", std::ios::binary)
        .read(reinterpret_cast<char*>(&header), sizeof header);
    return header;
  }

  // The headers of a program with that loader; empty: static.
  static std::string ElfBytes(const std::string& loader, Elf64_Ehdr header = OwnHeader()) {
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    Elf64_Phdr segment = {};
    segment.p_type = loader.empty() ? PT_LOAD : PT_INTERP;
    segment.p_offset = sizeof header + sizeof segment;
    segment.p_filesz = loader.size() + 1;
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
           std::string(reinterpret_cast<const char*>(&segment), sizeof segment) + loader + '\0';
  }

  std::filesystem::path folder_;
};

TEST_F(ProgramFileTest, ProgramsOfThisSystemHaveNoObstacle) {
  EXPECT_THAT(PreloadObstacle("sh"), IsEmpty());
  EXPECT_THAT(PreloadObstacle("/bin/sh"), IsEmpty());
  EXPECT_THAT(PreloadObstacle("/proc/self/exe"), IsEmpty());
}

TEST_F(ProgramFileTest, WhatCannotBeReadIsLeftToExec) {
  EXPECT_THAT(PreloadObstacle("no-such-program-of-ours"), IsEmpty());
  EXPECT_THAT(PreloadObstacle((folder_ / "none").string()), IsEmpty());
  EXPECT_THAT(PreloadObstacle(folder_.string()), IsEmpty());
  EXPECT_THAT(PreloadObstacle(Write("text", "hello\n")), IsEmpty());
  EXPECT_THAT(PreloadObstacle(Write("nothing", "")), IsEmpty());
  EXPECT_THAT(PreloadObstacle(""), IsEmpty());
  const std::string whole = ElfBytes("/lib/ld-musl-x86_64.so.1");
  for (size_t size = 0; size < whole.size(); ++size) {
    PreloadObstacle(Write("cut", whole.substr(0, size)));  // Any answer, no crash.
  }
}

TEST_F(ProgramFileTest, StaticProgramsAndOtherLoadersAreNamed) {
  const std::string fixed = Write("static", ElfBytes(""));
  EXPECT_EQ(PreloadObstacle(fixed), "'" + fixed + "' is statically linked");
  const std::string musl = Write("musl", ElfBytes("/lib/ld-musl-x86_64.so.1"));
  EXPECT_THAT(PreloadObstacle(musl), HasSubstr("has the loader '/lib/ld-musl-x86_64.so.1', not"));
}

TEST_F(ProgramFileTest, OtherMachinesAreNamed) {
  Elf64_Ehdr header = OwnHeader();
  header.e_machine = EM_S390;
  EXPECT_THAT(PreloadObstacle(Write("s390", ElfBytes("/lib/ld64.so.1", header))),
              HasSubstr("another kind of machine"));
  header = OwnHeader();
  header.e_ident[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(PreloadObstacle(Write("narrow", ElfBytes("/lib/ld.so.2", header))),
              HasSubstr("another kind of machine"));
}

TEST_F(ProgramFileTest, ScriptsCountAsTheirInterpreter) {
  const std::string fixed = Write("static", ElfBytes(""));
  const std::string why = "'" + fixed + "' is statically linked";
  const std::string script = Write("script", "#!" + fixed + " -x\nrest\n");
  EXPECT_EQ(PreloadObstacle(script), why);
  EXPECT_EQ(PreloadObstacle(Write("second", "#! " + script + "\n")), why);
  EXPECT_EQ(PreloadObstacle(Write("env", "#!/usr/bin/env -S A=1 " + fixed + "\n")), why);
  EXPECT_THAT(PreloadObstacle(Write("sh", "#!/usr/bin/env sh\n")), IsEmpty());
  EXPECT_THAT(PreloadObstacle(Write("bare", "#!\n")), IsEmpty());
  EXPECT_THAT(PreloadObstacle(Write("loop", "#!" + (folder_ / "loop").string() + "\n")), IsEmpty());
}

TEST_F(ProgramFileTest, ProgramsThatGainRightsAreNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  const std::string path = folder_ / "setuid";
  std::filesystem::copy_file("/bin/sh", path);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
  chmod(path.c_str(), 0755);
  EXPECT_THAT(PreloadObstacle(path), IsEmpty());
  chmod(path.c_str(), 04755);
  EXPECT_THAT(PreloadObstacle(path), HasSubstr("is setuid, setgid, or has capabilities"));
}

}  // namespace
}  // namespace profd::cli
