// Traces of a large stored capture, beside copying the same bytes in the same run.
//
//   profd_bench export [RANGES] [ROUNDS]        default: 4000000 5
//   profd_bench export FILE.profd [ROUNDS]      that capture as Chrome JSON, alone
//
// of one with a fourth as many GPU rows, each launched from a range of its own, and of one with as
// many operators of torch.
//
// Prints one line per figure; the best round counts. Everything runs on one thread.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/export/sink/byte_sink.h"
#include "daemon/export/trace_export.h"
#include "tests/bench/bench_capture.h"
#include "tests/bench/benchmarks.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::bench {
namespace {

using exporter::TraceFormat;

constexpr size_t kPieceBytes = size_t{1} << 20;

class NullSink : public exporter::ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// Writes to a file that is there already, without the sync that a real one ends with: the
// disk is not what is measured.
class PlainFileSink : public exporter::ByteSink {
 public:
  explicit PlainFileSink(const std::filesystem::path& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  absl::Status Append(std::string_view bytes) override {
    if (write(fd_.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      return absl::InternalError("write");
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  UniqueFd fd_;
};

void ExportOnce(const BenchCapture& capture, TraceFormat format, exporter::ByteSink& sink) {
  const auto reader = OpenCapture(capture);
  Must(exporter::ExportTrace(*reader, format, sink));
}

void CopyFile(const std::filesystem::path& from, const std::filesystem::path& to) {
  const UniqueFd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  PlainFileSink out(to);
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t size = read(in.get(), piece.data(), piece.size());
    if (size < 0) Die(absl::InternalError("read"));
    if (size == 0) return;
    Must(out.Append({piece.data(), static_cast<size_t>(size)}));
  }
}

void Report(const std::string& what, const BenchCapture& capture, const Timing& timing) {
  const auto events = static_cast<double>(capture.ranges);
  Print((what + ", M ranges/s").c_str(), events / timing.wall_s / 1e6, "M/s");
  Print((what + ", by CPU time").c_str(), events / timing.cpu_s / 1e6, "M/s");
}

void ReportOperators(const std::filesystem::path& folder, int64_t operators, int rounds) {
  const BenchCapture capture = WriteOperatorBenchCapture(folder, operators);
  for (const auto& [format, name] : {std::pair(TraceFormat::kChrome, "Chrome JSON of operators"),
                                     std::pair(TraceFormat::kPerfetto, "Perfetto of operators")}) {
    size_t bytes = 0;
    Report(name, capture, Best(rounds, [&, format = format] {
             NullSink sink;
             ExportOnce(capture, format, sink);
             bytes = sink.bytes();
           }));
    Print("... its size", static_cast<double>(bytes) / static_cast<double>(capture.ranges),
          "bytes/operator");
  }
}

// A GPU row comes with its call, two ends of a flow, and a range and a quarter around it.
void ReportGpu(const std::filesystem::path& folder, int64_t gpu_rows, int rounds) {
  const BenchCapture capture = WriteGpuBenchCapture(folder, gpu_rows);
  Print("GPU capture: GPU rows", static_cast<double>(capture.gpu_rows) / 1e6, "M");
  Print("... its ranges", static_cast<double>(capture.ranges) / 1e6, "M");
  for (const auto& [format, name] : {std::pair(TraceFormat::kChrome, "Chrome JSON of it"),
                                     std::pair(TraceFormat::kPerfetto, "Perfetto of it")}) {
    size_t bytes = 0;
    const Timing timing = Best(rounds, [&, format = format] {
      NullSink sink;
      ExportOnce(capture, format, sink);
      bytes = sink.bytes();
    });
    const auto rows = static_cast<double>(capture.gpu_rows);
    Print((std::string(name) + " to nowhere, M GPU rows/s").c_str(), rows / timing.wall_s / 1e6,
          "M/s");
    Print((std::string(name) + ", by CPU time").c_str(), rows / timing.cpu_s / 1e6, "M/s");
    Print("... its size", static_cast<double>(bytes) / rows, "bytes/GPU row");
  }
}

// Counts events: each stands on a line of its own.
class LineSink : public exporter::ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes.size();
    lines_ += std::count(bytes.begin(), bytes.end(), '\n');
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  size_t bytes() const { return bytes_; }
  int64_t lines() const { return lines_; }

 private:
  size_t bytes_ = 0;
  int64_t lines_ = 0;
};

int OfFile(const std::filesystem::path& path, int rounds) {
  const BenchCapture capture = {.path = path};
  LineSink counted;
  ExportOnce(capture, TraceFormat::kChrome, counted);
  const auto bytes = static_cast<double>(counted.bytes());
  const auto lines = static_cast<double>(counted.lines());
  Print("events", lines, "");
  Print("... their size", bytes / lines, "bytes/event");
  const store::TemporaryFolder folder;
  const auto report = [&](const char* what, const Timing& timing) {
    Print(what, timing.wall_s / lines * 1e9, "ns/event");
    Print("... by CPU time", timing.cpu_s / lines * 1e9, "ns/event");
    Print("... in bytes, by CPU time", bytes / timing.cpu_s / 1e9, "GB/s");
  };
  report("Chrome JSON to a file", Best(rounds, [&] {
           PlainFileSink sink(folder / "trace.json");
           ExportOnce(capture, TraceFormat::kChrome, sink);
         }));
  report("Chrome JSON to nowhere", Best(rounds, [&] {
           NullSink sink;
           ExportOnce(capture, TraceFormat::kChrome, sink);
         }));
  return 0;
}

int Main(int64_t ranges, int rounds) {
  const store::TemporaryFolder folder;
  const BenchCapture capture = WriteBenchCapture(folder.path(), ranges, /*memory=*/false);
  Print("capture: ranges", static_cast<double>(capture.ranges) / 1e6, "M");
  const auto of_range = [&](double bytes) { return bytes / static_cast<double>(capture.ranges); };

  const std::filesystem::path trace = folder / "trace.json";
  Report("Chrome JSON to a file", capture, Best(rounds, [&] {
           PlainFileSink sink(trace);
           ExportOnce(capture, TraceFormat::kChrome, sink);
         }));
  const auto trace_bytes = static_cast<double>(std::filesystem::file_size(trace));
  Print("... its size", of_range(trace_bytes), "bytes/range");
  const Timing copy = Best(rounds, [&] { CopyFile(trace, folder / "copy.json"); });
  Report("copying the same bytes", capture, copy);
  Print("... in bytes", trace_bytes / copy.wall_s / 1e9, "GB/s");
  std::filesystem::remove(folder / "copy.json");

  Report("Chrome JSON to nowhere", capture, Best(rounds, [&] {
           NullSink sink;
           ExportOnce(capture, TraceFormat::kChrome, sink);
         }));
  const std::filesystem::path gz = folder / "trace.json.gz";
  Report("Chrome JSON as one gzip stream to a file", capture, Best(rounds, [&] {
           PlainFileSink sink(gz);
           ExportOnce(capture, TraceFormat::kChromeGz, sink);
         }));
  Print("... its size", of_range(static_cast<double>(std::filesystem::file_size(gz))),
        "bytes/range");
  const std::filesystem::path perfetto = folder / "trace.pftrace";
  Report("Perfetto to a file", capture, Best(rounds, [&] {
           PlainFileSink sink(perfetto);
           ExportOnce(capture, TraceFormat::kPerfetto, sink);
         }));
  Print("... its size", of_range(static_cast<double>(std::filesystem::file_size(perfetto))),
        "bytes/range");
  Print("capture file: size",
        of_range(static_cast<double>(std::filesystem::file_size(capture.path))), "bytes/range");
  ReportGpu(folder.path(), ranges / 4, rounds);
  ReportOperators(folder.path(), ranges, rounds);
  return 0;
}

}  // namespace

int ExportBenchmark(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]).ends_with(".profd")) {
    return OfFile(argv[1], std::max(static_cast<int>(NumberAt(argc, argv, 2, 5)), 1));
  }
  const int64_t ranges = NumberAt(argc, argv, 1, 4'000'000);
  const int rounds = static_cast<int>(NumberAt(argc, argv, 2, 5));
  if (ranges < 100'000 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: profd_bench export [RANGES >= 100000 | FILE.profd] [ROUNDS >= 1]\n");
    return 2;
  }
  return Main(ranges, rounds);
}

}  // namespace profd::bench
