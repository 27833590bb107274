// A capture file with some of its bytes replaced is read to the end or refused. The file is
// not sealed, so that the checksum over its contents does not stop everything at the door.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {
namespace {

// The file that is changed, and its bytes as they were.
struct Subject {
  Subject();
  const TemporaryFolder folder;
  std::filesystem::path path;
  std::vector<char> bytes;
  UniqueFd file;
};

Subject::Subject() {
  const std::string id = IdOf(1);
  path = folder / (id + ".part");
  {
    auto writer =
        CaptureFileWriter::Create(NewRecord(id), Clock::Real(), {.directory = folder.path()});
    StepPattern pattern(1, 20);
    std::vector<RangeRow> ranges = pattern.NextRanges();
    ranges.resize(100);
    std::vector<MemoryRow> memory = pattern.Memory();
    memory.resize(10);
    const std::vector<StepRow> marks = {{0, 7}, {1'000, 8}};
    GpuPattern gpu(1, 20);
    const bool ok = writer.ok() && IntroducePattern(pattern, 2, **writer).ok() &&
                    (*writer)->Append(0, ranges).ok() && (*writer)->Append(1, ranges).ok() &&
                    (*writer)->Append(1, memory).ok() && (*writer)->Append(0, marks).ok() &&
                    (*writer)->Append(gpu.NextRows(20)).ok() &&
                    (*writer)->Append(1, gpu.ApiCalls()).ok() && IntroduceInputs(**writer).ok() &&
                    (*writer)->Append(0, OperatorsOf(ranges)).ok();
    if (!ok) std::abort();
  }
  file.Reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
  bytes.resize(std::filesystem::file_size(path));
  if (pread(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
}

void ReadEverything(const std::filesystem::path& path) {
  auto reader = CaptureFileReader::Open(path, CaptureFileReader::Accept::kUnfinished);
  if (!reader.ok()) return;
  ReadAll(**reader).status().IgnoreError();
  (*reader)->ForEach<StepRow>([](const StepBatch&) { return absl::OkStatus(); }).IgnoreError();
  (*reader)->FindDamagedChunks().status().IgnoreError();
}

}  // namespace
}  // namespace profd::store

// Patches, one after the other: 3 bytes of position, 1 byte of length (at most 16), the bytes.
PROFD_FUZZ_TARGET(FuzzCaptureFile)(std::span<const uint8_t> data) {
  using store::Subject;
  static Subject& subject = *new Subject();
  std::vector<std::pair<size_t, size_t>> patched;
  while (data.size() > 4) {
    size_t position = data[0] | size_t{data[1]} << 8 | size_t{data[2]} << 16;
    position %= subject.bytes.size();
    size_t length = std::min<size_t>(data[3] % 17, data.size() - 4);
    length = std::min(length, subject.bytes.size() - position);
    if (pwrite(subject.file.get(), data.data() + 4, length, static_cast<off_t>(position)) < 0) {
      std::abort();
    }
    patched.emplace_back(position, length);
    data = data.subspan(4 + length);
  }
  store::ReadEverything(subject.path);
  for (const auto& [position, length] : patched) {
    if (pwrite(subject.file.get(), &subject.bytes[position], length, static_cast<off_t>(position)) <
        0) {
      std::abort();
    }
  }
}
