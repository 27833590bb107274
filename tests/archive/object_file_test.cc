#include "daemon/archive/s3/object_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/writer.h"
#include "tests/archive/s3_server.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::archive {
namespace {

using store::CaptureReader;
using store::TemporaryFolder;
using testing::HasSubstr;

class ObjectFileTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectFile> Put(const std::string& bytes) {
    EXPECT_THAT(client_.Put("object", bytes, {}), IsOk());
    auto file = ObjectFile::Open(client_, "object");
    EXPECT_THAT(file, IsOk());
    return *std::move(file);
  }

  // A sealed capture with many GPU rows and a few ranges, as bytes.
  std::string CaptureBytes() {
    const std::string id = store::IdOf(1);
    auto writer = store::CaptureFileWriter::Create(store::NewRecord(id), clock_,
                                                   {.directory = folder_.path()});
    EXPECT_THAT(writer, IsOk());
    store::StepPattern steps(1);
    EXPECT_THAT(store::IntroducePattern(steps, 1, **writer), IsOk());
    EXPECT_THAT((*writer)->Append(0, steps.NextRanges()), IsOk());
    store::GpuPattern gpu(1);
    for (int batch = 0; batch < 60; ++batch) {
      EXPECT_THAT((*writer)->Append(gpu.NextRows(10'000)), IsOk());
    }
    CaptureRecord record = store::FinishedRecord(
        store::NewRecord(id), {.start_ns = 0, .end_ns = steps.now_ns(), .end_step = 1});
    EXPECT_THAT((*writer)->Finish(record, 0), IsOk());
    std::ifstream file(folder_ / (id + ".profd"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  TemporaryFolder folder_;
  store::ManualClock clock_;
  S3Server server_{folder_.path() / "s3"};
  CredentialSource credentials_{ServerCredentials(), Clock::Real()};
  S3Client client_{OptionsFor(server_), credentials_, Clock::Real()};
};

TEST_F(ObjectFileTest, ReadsTheSameBytesAtAnyOffset) {
  std::mt19937 random(1);
  std::string bytes(3 * ObjectFile::kBlockBytes + 777, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  const auto file = Put(bytes);
  ASSERT_THAT(file->Size(), IsOkAndHolds(std::ssize(bytes)));
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % (bytes.size() + 10);
    std::string read(random() % (2 * ObjectFile::kBlockBytes), 'x');
    const auto got = file->Read(static_cast<int64_t>(offset), read);
    ASSERT_THAT(got, IsOk());
    const std::string wanted = offset < bytes.size() ? bytes.substr(offset, read.size()) : "";
    ASSERT_EQ(read.substr(0, *got), wanted) << offset;
  }
  EXPECT_EQ(file->fetched_bytes(), std::ssize(bytes)) << "each block once";
}

TEST_F(ObjectFileTest, ATableOfALargeCaptureDoesNotDownloadIt) {
  const std::string bytes = CaptureBytes();
  ASSERT_GT(std::ssize(bytes), 8 * ObjectFile::kBlockBytes);
  auto file = Put(bytes);
  ObjectFile& object = *file;
  auto reader = CaptureReader::Open(std::move(file), "s3://test/object");
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->record().file_bytes, std::ssize(bytes));
  size_t ranges = 0;
  ASSERT_THAT((*reader)->ForEach<RangeRow>(kRangeAllColumns, {},
                                           [&](const RangeBatch& batch) {
                                             ranges += batch.size;
                                             return absl::OkStatus();
                                           }),
              IsOk());
  EXPECT_GT(ranges, 1'000u);
  EXPECT_LT(object.fetched_bytes(), std::ssize(bytes) / 2);
}

TEST_F(ObjectFileTest, WhatTheServerSaysIsTheErrorOfTheReport) {
  S3Client::Options options = OptionsFor(server_);
  options.attempts = 1;
  S3Client impatient(options, credentials_, Clock::Real());
  ASSERT_THAT(client_.Put("object", CaptureBytes(), {}), IsOk());
  auto file = ObjectFile::Open(impatient, "object");
  ASSERT_THAT(file, IsOk());
  auto reader = CaptureReader::Open(*std::move(file), "s3://test/object");
  ASSERT_THAT(reader, IsOk());
  server_.Fail(R"({"status": 503, "code": "SlowDown", "count": 1000})");
  EXPECT_THAT((*reader)->ForEach<GpuRow>(kGpuAllColumns, {},
                                         [](const GpuBatch&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("SlowDown")));
}

TEST_F(ObjectFileTest, WhatIsNoCaptureIsRefused) {
  auto file = Put("hello");
  EXPECT_THAT(CaptureReader::Open(std::move(file), "s3://test/object"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("s3://test/object")));
  auto long_file = Put(std::string(100'000, 'x'));
  EXPECT_THAT(CaptureReader::Open(std::move(long_file), "it"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ObjectFileTest, AnObjectThatBecomesShorterIsDamage) {
  const auto file = Put(std::string(2 * ObjectFile::kBlockBytes, 'x'));
  ASSERT_THAT(client_.Put("object", std::string(ObjectFile::kBlockBytes + 1, 'x'), {}), IsOk());
  std::string read(10, ' ');
  EXPECT_THAT(file->Read(ObjectFile::kBlockBytes, read), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::archive
