// Traces whose end is missing, as those of jobs that were killed while torch.profiler wrote.
#include <zlib.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/quality.h"
#include "gmock/gmock.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 6;
constexpr int kLaunchesPerStep = 3;

// As Kineto orders it: operators and steps first, then calls and kernels by time, then its own
// marks. Kernel i of a step runs 20 us after its launch, so that the last one of a step begins
// within the next step.
class KinetoTrace {
 public:
  KinetoTrace() {
    for (int step = 0; step < kSteps; ++step) {
      Add(Slice("user_annotation", StrCat("ProfilerStep#", step), 100 * step, 100, 1, ""));
      for (int i = 0; i < kLaunchesPerStep; ++i) {
        Add(Slice("cpu_op", "aten::mul \xC3\xA4", 100 * step + 30 * i, 20, 1, ""));
      }
    }
    operators_end_ = text_.size();
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < kLaunchesPerStep; ++i) {
        const int at = 100 * step + 30 * i + 5;
        const int id = 1 + step * kLaunchesPerStep + i;
        Add(Slice("cuda_runtime", "cudaLaunchKernel", at, 5, 1, StrCat("\"correlation\":", id)));
        if (id > 2) AddKernel(id - 2);  // Records of kernels come when they have ended.
      }
    }
    AddKernel(kSteps * kLaunchesPerStep - 1);
    AddKernel(kSteps * kLaunchesPerStep);
    events_end_ = text_.size();
    Add(R"({"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":700})");
    marks_end_ = text_.size();
    text_ += R"(],"traceName":"t.json"})";
  }

  const std::string& text() const { return text_; }
  size_t first_operator_end() const { return first_operator_end_; }
  size_t operators_end() const { return operators_end_; }
  size_t events_end() const { return events_end_; }  // Of those with times.
  size_t marks_end() const { return marks_end_; }

 private:
  static std::string Slice(std::string_view category, std::string_view name, int start,
                           int duration, int tid, std::string_view arguments) {
    return StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name, R"(","pid":1,"tid":)",
                  tid, ",\"ts\":", start, ",\"dur\":", duration, ",\"args\":{", arguments, "}}");
  }
  void AddKernel(int id) {
    const int at = 100 * ((id - 1) / kLaunchesPerStep) + 30 * ((id - 1) % kLaunchesPerStep) + 50;
    Add(Slice("kernel", "k", at, 10, 7, StrCat(R"("device":0,"stream":7,"correlation":)", id)));
  }
  void Add(const std::string& event) {
    text_ += event_count_ == 0 ? "" : ",\n";
    text_ += event;
    if (++event_count_ == 2) first_operator_end_ = text_.size();
  }

  std::string text_ = R"({"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[)";
  int event_count_ = 0;
  size_t first_operator_end_ = 0;
  size_t operators_end_ = 0;
  size_t events_end_ = 0;
  size_t marks_end_ = 0;
};

std::string Zipped(std::string_view text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zipped(deflateBound(&stream, text.size()) + 64, '\0');
  std::string copy(text);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(zipped.data());
  stream.avail_out = static_cast<uInt>(zipped.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  zipped.resize(stream.total_out);
  deflateEnd(&stream);
  return zipped;
}

class CutOffTest : public ImportTest {
 protected:
  // What the capture says of the end of its file; empty: nothing.
  static std::string CutOf(const CaptureRecord& record) {
    for (const auto& [kind, count] : record.imported.not_understood) {
      if (kind.starts_with(kCutOffKind)) return kind;
    }
    return "";
  }
  const QualityCheck* Check(const CaptureRecord& record, std::string_view name) {
    for (const QualityCheck& check : record.graded.checks) {
      if (check.name == name) return &check;
    }
    ADD_FAILURE() << name;
    return nullptr;
  }
  const KinetoTrace trace_;
};

TEST_F(CutOffTest, WhereverItIsCutWhatIsCompleteIsReadAndTheByteIsNamed) {
  const std::string& text = trace_.text();
  // Each byte around the end of the first operator and at the end; elsewhere, all parts of an
  // event.
  const size_t first_end = trace_.first_operator_end();
  const auto next = [&](size_t size) {
    const bool is_close =
        size + 200 > text.size() || (size + 100 > first_end && size < first_end + 200);
    return size + (is_close ? 1 : 29);
  };
  for (size_t size = 1; size < text.size(); size = next(size)) {
    const auto imported = ImportText(text.substr(0, size));
    if (size < first_end) {
      ASSERT_THAT(imported, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("byte"))) << size;
      continue;
    }
    ASSERT_THAT(imported, IsOk()) << size;
    const CaptureRecord& record = imported->record;
    EXPECT_THAT(CutOf(record), HasSubstr(StrCat("at byte ", size))) << size;
    const bool lacks_events = size < trace_.marks_end();
    EXPECT_EQ(record.state, lacks_events ? CaptureState::kPartial : CaptureState::kComplete)
        << size;
    EXPECT_EQ(record.graded.grade, lacks_events ? "D" : "B") << size;
    if (!lacks_events) {
      EXPECT_EQ(record.covered_steps, kSteps) << size;
    }
  }
}

TEST_F(CutOffTest, EveryStepThatIsLeftHasAllItsCallsAndKernels) {
  const std::string& text = trace_.text();
  int64_t most_steps = 0;
  for (size_t size = trace_.operators_end() + 1; size < trace_.marks_end(); size += 17) {
    const auto imported = ImportText(text.substr(0, size));
    ASSERT_THAT(imported, IsOk()) << size;
    const auto reader = Open(imported->file);
    ASSERT_NE(reader, nullptr);
    if (reader->record().gpu.record_count == 0) continue;  // It ends in the first call.
    for (const StepRecord& step : reader->steps()) {
      int64_t calls = 0;
      ASSERT_THAT(reader->ForEach<ApiRow>([&](const ApiBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          calls += batch.start_ns[i] >= step.start_ns &&
                   batch.start_ns[i] < step.start_ns + step.duration_ns;
        }
        return absl::OkStatus();
      }),
                  IsOk());
      EXPECT_EQ(calls, kLaunchesPerStep) << size << ", step " << step.index;
      EXPECT_LE(step.start_ns + step.duration_ns, reader->record().windows.back().end_ns) << size;
    }
    const int64_t step_count = std::ssize(reader->steps());
    EXPECT_EQ(step_count, reader->record().covered_steps);
    EXPECT_GE(step_count, most_steps) << size;
    most_steps = std::max(most_steps, step_count);
    // No launch lacks its work: that would be idle time of the GPU.
    const QualityCheck* silent = Check(reader->record(), "silent_launches");
    if (silent != nullptr && silent->known && reader->gpu_row_count() > 0) {
      EXPECT_EQ(silent->value, 0) << size;
    }
  }
  // Calls before the first one may be missing, too, and so the first step may lack some.
  EXPECT_EQ(most_steps, kSteps - 2);
}

// As CUPTI's buffers are written: in the order of their addresses. The file lacks the last buffer,
// which may be that of any steps.
TEST_F(CutOffTest, OfBuffersThatAreNotInOrderNoStepLacksCallsOrKernels) {
  constexpr int kBuffers = 5;
  constexpr int kStepsPerBuffer = 4;
  constexpr int kCallsPerStep = 100;
  constexpr int kStepUs = 10 * kCallsPerStep;
  const auto event = [](std::string_view category, std::string_view name, int start, int duration,
                        int tid, int id) {
    return StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name, R"(","pid":1,"tid":)",
                  tid, ",\"ts\":", start, ",\"dur\":", duration,
                  R"(,"args":{"device":0,"stream":7,"correlation":)", id, "}},\n");
  };
  for (int missing = 0; missing < kBuffers; ++missing) {
    std::string text = R"({"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[)";
    for (int step = 0; step < kBuffers * kStepsPerBuffer; ++step) {
      text +=
          event("user_annotation", StrCat("ProfilerStep#", step), kStepUs * step, kStepUs, 1, 0);
    }
    for (int i = 1; i < kBuffers; ++i) {
      // Down from the one before the missing one, as addresses may be.
      const int buffer = (missing + kBuffers - i) % kBuffers;
      const int first = buffer * kStepsPerBuffer * kCallsPerStep;
      for (int call = first; call < first + kStepsPerBuffer * kCallsPerStep; ++call) {
        text += event("cuda_runtime", "cudaLaunchKernel", 10 * call + 1, 2, 1, 1 + 4 * call);
        text += event("kernel", "k", 10 * call + 5, 6, 7, 1 + 4 * call);
      }
    }
    text += R"({"ph":"X","cat":"ker)";
    const auto reader = Read(text);
    ASSERT_NE(reader, nullptr) << missing;
    EXPECT_EQ(reader->record().state, CaptureState::kPartial) << missing;
    EXPECT_GE(std::ssize(reader->steps()), kStepsPerBuffer - 1) << missing;
    for (const StepRecord& step : reader->steps()) {
      int64_t calls = 0;
      int64_t busy_ns = 0;
      const int64_t step_end_ns = step.start_ns + step.duration_ns;
      ASSERT_THAT(reader->ForEach<ApiRow>([&](const ApiBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          calls += batch.start_ns[i] >= step.start_ns && batch.start_ns[i] < step_end_ns;
        }
        return absl::OkStatus();
      }),
                  IsOk());
      ASSERT_THAT(reader->ForEach<GpuRow>(kGpuAllColumns, {},
                                          [&](const GpuBatch& batch) {
                                            for (size_t i = 0; i < batch.size; ++i) {
                                              busy_ns += std::max<int64_t>(
                                                  std::min(batch.start_ns[i] + batch.duration_ns[i],
                                                           step_end_ns) -
                                                      std::max(batch.start_ns[i], step.start_ns),
                                                  0);
                                            }
                                            return absl::OkStatus();
                                          }),
                  IsOk());
      EXPECT_EQ(calls, kCallsPerStep) << missing << ", step " << step.index;
      EXPECT_NEAR(static_cast<double>(busy_ns), 6000.0 * kCallsPerStep, 6000.0)
          << missing << ", step " << step.index;
    }
  }
}

// Without numbers of calls, nothing shows which are missing.
TEST_F(CutOffTest, WithoutCorrelationsNothingOfTheGpuIsKept) {
  const auto reader = Read(
      R"({"schemaVersion":1,"traceEvents":[)"
      R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":10},)"
      R"({"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":20,"dur":10},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":22,"dur":1},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":25,"dur":1},)"
      R"({"ph":"X","cat":"ker)");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().gpu.record_count, 0);
  EXPECT_EQ(reader->record().imported.not_understood.at("GPU events, of which others are missing"),
            2);
  EXPECT_EQ(reader->record().windows.back().end_ns, 20'000);
}

TEST_F(CutOffTest, OfOperatorsThatAreCutOffTheRestIsNotIdle) {
  // In the middle of the third step's operators.
  const std::string text = trace_.text().substr(0, trace_.text().find("ProfilerStep#3") - 300);
  const auto imported = ImportText(text);
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->record.covered_steps, 2);
  EXPECT_LE(imported->record.windows.back().end_ns, 300'000);
  EXPECT_THAT(Check(imported->record, "coverage")->sentence,
              HasSubstr("cut off (in an event, at byte "));
  EXPECT_EQ(
      imported->record.imported.not_understood.at("steps after the last time that is complete"), 1);
}

TEST_F(CutOffTest, GzipMayEndAnywhere) {
  const std::string& text = trace_.text();
  const std::string zipped = Zipped(text);
  int64_t complete = 0;
  int64_t partial = 0;
  const auto next = [&](size_t size) { return size + (zipped.size() - size < 20 ? 1 : 3); };
  for (size_t size = 1; size < zipped.size(); size = next(size)) {
    const auto imported = ImportText(zipped.substr(0, size));
    if (!imported.ok()) {
      EXPECT_TRUE(imported.status().code() == absl::StatusCode::kDataLoss ||
                  imported.status().code() == absl::StatusCode::kInvalidArgument)
          << size << " " << imported.status();
      EXPECT_EQ(complete + partial, 0) << size << " " << imported.status();
      continue;
    }
    EXPECT_NE(CutOf(imported->record), "") << size;
    ++(imported->record.state == CaptureState::kPartial ? partial : complete);
  }
  EXPECT_GT(partial, 100);
  EXPECT_GE(complete, 8);  // Without its trailer, nothing is missing.
}

TEST_F(CutOffTest, TwoMembersOfWhichTheSecondIsCutOff) {
  const std::string& text = trace_.text();
  const std::string first = Zipped(text.substr(0, trace_.operators_end()));
  const std::string second = Zipped(text.substr(trace_.operators_end()));
  const auto imported = ImportText(first + second.substr(0, second.size() * 9 / 10));
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->record.state, CaptureState::kPartial);
  EXPECT_GT(imported->record.gpu.record_count, 0);
}

TEST_F(CutOffTest, AnArrayNeedsNoBracketAtItsEnd) {
  const std::string event =
      R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1})";
  const auto whole = ImportText(StrCat("[", event, ",\n", event));
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->record.state, CaptureState::kComplete);
  EXPECT_THAT(CutOf(whole->record), HasSubstr("without the last ']'"));
  const auto cut = ImportText(StrCat("[", event, ",\n", event.substr(0, 30)));
  ASSERT_THAT(cut, IsOk());
  EXPECT_EQ(cut->record.state, CaptureState::kPartial);
}

// A time that cannot be true does not say how long the program ran.
TEST_F(CutOffTest, ADamagedTimeIsNotTheEnd) {
  const auto cut = [](std::string_view first_us, std::string_view begin_us,
                      std::string_view far_us) {
    return StrCat(R"({"schemaVersion":1,"traceEvents":[)"
                  R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":10,"ts":)",
                  first_us, R"(},{"ph":"B","name":"r","pid":1,"tid":1,"ts":)", begin_us,
                  R"(},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"dur":1,"ts":)", far_us,
                  R"(},{"ph":"X","cat":"cpu)");
  };
  const auto near = Read(cut("0", "5", "900000000000000"));
  ASSERT_NE(near, nullptr);
  EXPECT_EQ(near->record().state, CaptureState::kPartial);
  EXPECT_EQ(near->record().windows.at(0).end_ns, 5000);
  // Of which the difference has no 64 bits.
  const auto far = Read(cut("-9000000000000000", "-8999999999999995", "9000000000000000"));
  ASSERT_NE(far, nullptr);
  EXPECT_EQ(far->record().windows.at(0).end_ns, 5000);
}

// Calls and GPU work at either end of what 64 bits hold, and many of one correlation.
TEST_F(CutOffTest, CallsAndWorkWithDamagedTimesAreSafe) {
  const auto call = [](std::string_view us, int correlation) {
    return StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,)",
                  R"("dur":1,"ts":)", us, R"(,"args":{"correlation":)", correlation, "}},");
  };
  const auto work = [](std::string_view us, int correlation) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"dur":4000000,"ts":)", us,
                  R"(,"args":{"correlation":)", correlation, "}},");
  };
  const std::string step =
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,)"
      R"("ts":-9223372036854775.8,"dur":9000000000000000},)";
  const std::string early = "-9223372036854775.8";
  const std::string late = "9223372036854775.8";
  const std::string op =
      StrCat(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":10,"ts":)", early, "},");
  std::string many;
  for (int i = 0; i < 100; ++i) StrAppend(&many, call("5", 9), work("6", 9));
  for (const std::string& events :
       {call(early, 1) + call(early, 2) + work(late, 1), call(late, 1) + work(early, 1) + step,
        step + call(early, 1) + work(early, 1) + call(late, 2) + work(late, 2), many}) {
    const std::string text =
        StrCat(R"({"schemaVersion":1,"traceEvents":[)", op, events, R"({"ph":"X","cat":"ker)");
    const auto imported = ImportText(text);
    ASSERT_THAT(imported, IsOk()) << text;
    EXPECT_EQ(imported->record.state, CaptureState::kPartial) << text;
  }
}

TEST_F(CutOffTest, ARangeWithoutAnEndLastsNoLongerThanOneThatHasIt) {
  constexpr int64_t kDayUs = int64_t{24} * 3600 * 1'000'000;
  const auto reader = Read(
      StrCat(R"({"schemaVersion":1,"traceEvents":[)"
             R"({"ph":"B","name":"long","pid":1,"tid":1,"ts":5},)"
             R"({"ph":"B","name":"short","pid":1,"tid":1,"ts":)",
             19 * kDayUs,
             R"(},{"ph":"B","name":"pair","pid":1,"tid":2,"ts":7},)"
             R"({"ph":"E","name":"pair","pid":1,"tid":2,"ts":)",
             8 * kDayUs, R"(},{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"dur":1,"ts":)",
             20 * kDayUs, R"(},{"ph":"X","cat":"cpu)"));
  ASSERT_NE(reader, nullptr);
  std::map<std::string, int64_t> durations_us;
  ASSERT_THAT(reader->ForEach<RangeRow>([&](const RangeBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      durations_us[reader->names()[batch.name[i]]] = batch.duration_ns[i] / 1000;
    }
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(durations_us,
              testing::ElementsAre(testing::Pair("b", 0), testing::Pair("long", 0),
                                   testing::Pair("pair", 0), testing::Pair("short", kDayUs)));
  EXPECT_EQ(
      reader->record().imported.not_understood.at("ph:B with more than 7 days to ph:E, taken as 0"),
      2);
}

TEST_F(CutOffTest, ADamagedStreamIsStillRefused) {
  std::string zipped = Zipped(trace_.text());
  zipped[zipped.size() - 6] ^= 0x55;  // Its checksum.
  EXPECT_THAT(ImportText(zipped), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
}

}  // namespace
}  // namespace profd::importer
