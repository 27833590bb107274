#include "daemon/export/sink/byte_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/export/sink/output_buffer.h"
#include "tests/export/sink/gunzip.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileSinkTest : public testing::Test {
 protected:
  FileSinkTest() {
    std::string pattern = (fs::temp_directory_path() / "profd_sink_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FileSinkTest() override { fs::remove_all(folder_); }

  static std::string Read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t ModeOf(const fs::path& path) {
    struct stat info = {};
    stat(path.c_str(), &info);
    return info.st_mode & 07777;
  }
  size_t FilesInFolder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static std::unique_ptr<ByteSink> OpenOrDie(const fs::path& path) {
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = OpenFileSink(path);
    EXPECT_THAT(sink, IsOk());
    return *std::move(sink);
  }

  fs::path folder_;
};

TEST_F(FileSinkTest, TheFileAppearsWholeWhenItIsFinished) {
  const fs::path path = folder_ / "trace.json";
  const std::unique_ptr<ByteSink> sink = OpenOrDie(path);
  ASSERT_THAT(sink->Append("one "), IsOk());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_THAT(sink->Append("two"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  EXPECT_EQ(Read(path), "one two");
  EXPECT_EQ(ModeOf(path), 0600);
  EXPECT_EQ(FilesInFolder(), 1U);
}

TEST_F(FileSinkTest, AnUnfinishedFileLeavesWhatWasThere) {
  const fs::path path = folder_ / "trace.json";
  std::ofstream(path) << "old";
  OpenOrDie(path)->Append("new").IgnoreError();
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(FilesInFolder(), 1U);
}

TEST_F(FileSinkTest, AFileThatExistsKeepsItsMode) {
  const fs::path path = folder_ / "trace.json";
  std::ofstream(path) << "old";
  fs::permissions(path, fs::perms(0640));
  const std::unique_ptr<ByteSink> sink = OpenOrDie(path);
  ASSERT_THAT(sink->Append("new"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  EXPECT_EQ(Read(path), "new");
  EXPECT_EQ(ModeOf(path), 0640);
}

TEST_F(FileSinkTest, ALinkKeepsStandingAndItsTargetIsReplaced) {
  const fs::path path = folder_ / "trace.json";
  std::ofstream(path) << "old";
  fs::create_symlink("trace.json", folder_ / "link");
  const std::unique_ptr<ByteSink> sink = OpenOrDie(folder_ / "link");
  ASSERT_THAT(sink->Append("new"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Read(path), "new");
}

// In a sticky folder that all may write to, as /tmp, where another user has put a file for us.
class SharedFolderTest : public FileSinkTest {
 protected:
  static constexpr uid_t kOther = 4242;
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "SKIP: only root makes files of another user";
    shared_ = folder_ / "shared";
    fs::create_directory(shared_);
    ASSERT_EQ(chmod(shared_.c_str(), 01777), 0);
    std::ofstream(folder_ / "private") << "old";
  }
  static void GiveAway(const fs::path& path) {
    ASSERT_EQ(lchown(path.c_str(), kOther, kOther), 0) << path;
  }

  fs::path shared_;
};

TEST_F(SharedFolderTest, ALinkOfAnotherUserIsNotFollowed) {
  fs::create_symlink(folder_ / "private", shared_ / "link");
  fs::create_symlink(folder_ / "new", shared_ / "dangling");
  GiveAway(shared_ / "link");
  GiveAway(shared_ / "dangling");
  fs::create_symlink("link", shared_ / "ours");
  for (const char* const name : {"link", "dangling", "ours"}) {
    EXPECT_THAT(OpenFileSink(shared_ / name),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("link of uid 4242")))
        << name;
  }
  EXPECT_EQ(Read(folder_ / "private"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(SharedFolderTest, OurLinkIsFollowed) {
  fs::create_symlink(folder_ / "private", shared_ / "link");
  const std::unique_ptr<ByteSink> sink = OpenOrDie(shared_ / "link");
  ASSERT_THAT(sink->Append("new"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  EXPECT_EQ(Read(folder_ / "private"), "new");
}

TEST_F(SharedFolderTest, ALinkWhereOnlyRootMayWriteIsFollowed) {
  fs::create_symlink("private", folder_ / "link");
  GiveAway(folder_ / "link");
  EXPECT_THAT(OpenFileSink(folder_ / "link"), IsOk());
  // Its owner may put anything there.
  ASSERT_EQ(chown(folder_.c_str(), kOther, kOther), 0);
  EXPECT_THAT(OpenFileSink(folder_ / "link"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SharedFolderTest, TheModeOfAnotherUsersFileIsNotTaken) {
  const fs::path path = shared_ / "trace.json";
  std::ofstream(path) << "old";
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  GiveAway(path);
  const std::unique_ptr<ByteSink> sink = OpenOrDie(path);
  ASSERT_THAT(sink->Append("new"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  EXPECT_EQ(ModeOf(path), 0600);
}

TEST_F(SharedFolderTest, AFifoOfAnotherUserGetsNothing) {
  const fs::path path = shared_ / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  GiveAway(path);
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THAT(OpenFileSink(path),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to uid 4242")));
}

TEST_F(FileSinkTest, AFifoThatNobodyReadsIsAnError) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(OpenFileSink(path),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no process reads")));
}

TEST_F(FileSinkTest, AFifoWhoseReaderClosesItIsAnErrorAndNoInterruption) {
  const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  UniqueFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::unique_ptr<ByteSink> sink = OpenOrDie(path);
  ASSERT_THAT(sink->Append("one"), IsOk());
  reader.Reset();
  EXPECT_THAT(sink->Append("two"), StatusIs(absl::StatusCode::kAborted, HasSubstr("its reader")));
  EXPECT_THAT(sink->Finish(), StatusIs(absl::StatusCode::kAborted));
  std::signal(SIGPIPE, ignored);
}

TEST_F(FileSinkTest, LinksInACircleAreAnError) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  EXPECT_THAT(OpenFileSink(folder_ / "a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too many links")));
}

TEST_F(FileSinkTest, AnOpenFileIsWrittenToAndNotReplaced) {
  const UniqueFd file(open((folder_ / "open").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  fs::create_symlink("/proc/self/fd/" + std::to_string(file.get()), folder_ / "link");
  const std::unique_ptr<ByteSink> sink = OpenOrDie(folder_ / "link");
  ASSERT_THAT(sink->Append("new"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  char bytes[16];
  EXPECT_EQ(pread(file.get(), bytes, sizeof(bytes), 0), 3);
}

TEST_F(FileSinkTest, AProcessSubstitutionIsWrittenTo) {  // -o >(gzip): a pipe in /dev/fd.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const std::unique_ptr<ByteSink> sink = OpenOrDie("/dev/fd/" + std::to_string(write_end.get()));
  ASSERT_THAT(sink->Append("new"), IsOk());
  char bytes[16];
  EXPECT_EQ(read(read_end.get(), bytes, sizeof(bytes)), 3);
}

TEST_F(FileSinkTest, ErrorsNameThePathAndSayWhatIsWrong) {
  EXPECT_THAT(OpenFileSink(folder_ / "none" / "trace.json"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none/trace.json")));
  EXPECT_THAT(OpenFileSink(folder_), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(OpenFileSink(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FileSinkTest, AFolderThatMayNotBeWrittenIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "SKIP: root may write everywhere";
  fs::permissions(folder_, fs::perms(0500));
  EXPECT_THAT(OpenFileSink(folder_ / "trace.json"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("trace.json")));
  fs::permissions(folder_, fs::perms(0700));
}

TEST_F(FileSinkTest, AFullDiskIsToldOnceAndForAll) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "SKIP: there is no /dev/full here";
  const std::unique_ptr<ByteSink> sink = OpenOrDie("/dev/full");
  EXPECT_THAT(sink->Append("x"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("/dev/full")));
  EXPECT_THAT(sink->Append("y"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(sink->Finish(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(FileSinkTest, APipeIsWrittenToAsItIs) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::unique_ptr<ByteSink> sink = OpenOrDie(path);
  ASSERT_THAT(sink->Append("through"), IsOk());
  ASSERT_THAT(sink->Finish(), IsOk());
  char bytes[16];
  EXPECT_EQ(read(reader.get(), bytes, sizeof(bytes)), 7);
  EXPECT_TRUE(fs::is_fifo(path));
}

class GzipSinkTest : public testing::TestWithParam<size_t> {};

TEST_P(GzipSinkTest, OneMemberHoldsEverythingWhateverThePieces) {
  std::mt19937_64 random(5);
  std::string text;
  while (text.size() < GetParam()) {
    text += random() % 4 == 0 ? std::to_string(random()) : "\"name\":\"aten::mm\",";
  }
  text.resize(GetParam());
  StringSink out;
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(out);
  for (size_t at = 0; at < text.size();) {
    const size_t part =
        std::min<size_t>(text.size() - at, random() % 3 == 0 ? 1 : random() % 90'000);
    ASSERT_THAT(gzip->Append(std::string_view(text).substr(at, part)), IsOk());
    at += part;
  }
  ASSERT_THAT(gzip->Finish(), IsOk());
  EXPECT_EQ(out.finished(), 1);
  EXPECT_THAT(GunzipOneMember(out.text()), IsOkAndHolds(text));
}
INSTANTIATE_TEST_SUITE_P(Sizes, GzipSinkTest, testing::Values(0, 1, 100, 70'000, 5'000'000));

TEST(GzipSinkTest, WhatCannotBeCompressedComesThrough) {
  std::mt19937_64 random(6);
  std::string text(3'000'000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  StringSink out;
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(out);
  ASSERT_THAT(gzip->Append(text), IsOk());
  ASSERT_THAT(gzip->Finish(), IsOk());
  EXPECT_THAT(GunzipOneMember(out.text()), IsOkAndHolds(text));
}

TEST(GzipSinkTest, TheSinksErrorIsTheStreamsErrorFromThenOn) {
  StringSink out;
  out.fail_after_bytes = 0;
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(out);
  std::mt19937_64 random(6);
  std::string text(3'000'000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  EXPECT_THAT(gzip->Append(text), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(gzip->Append("x"), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(gzip->Finish(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(out.finished(), 0);
}

TEST(OutputBufferTest, PiecesHaveAllThatWasWritten) {
  StringSink out;
  OutputBuffer buffer(out);
  std::string text;
  for (size_t i = 0; i < 100; ++i) {
    const std::string part(i * 1000, static_cast<char>('a' + i % 26));
    char* const at = buffer.Reserve(part.size());
    std::copy(part.begin(), part.end(), at);
    buffer.Commit(at + part.size());
    text += part;
  }
  buffer.Append(text);
  text += text;
  ASSERT_THAT(buffer.Finish(), IsOk());
  EXPECT_EQ(out.text(), text);
}

// Only a bug of a trace writer can do it. Nothing may be written after that.
TEST(OutputBufferDeathTest, WritingPastTheRoomStopsTheProgram) {
  StringSink out;
  OutputBuffer buffer(out);
  char* const at = buffer.Reserve(1);
  EXPECT_DEATH(
      {
        buffer.Commit(at + OutputBuffer::kPieceBytes + 1);
        buffer.Reserve(1);
      },
      "wrote more than it reserved");
  EXPECT_DEATH(buffer.Reserve(OutputBuffer::kPieceBytes + 1), "asked for too much room");
}

}  // namespace
}  // namespace profd::exporter
