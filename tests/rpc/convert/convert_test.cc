#include "daemon/rpc/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/server/status.h"
#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Code = absl::StatusCode;

constexpr char kId[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

v1::CaptureSpec FiveSteps() {
  v1::CaptureSpec spec;
  spec.set_steps(5);
  return spec;
}

TEST(SpecTest, DefaultsAreFilledIn) {
  const auto spec = SpecFromProto(FiveSteps());
  ASSERT_THAT(spec, IsOk());
  CaptureSpec expected;
  expected.steps = 5;
  EXPECT_EQ(*spec, expected);
}

TEST(SpecTest, EveryFieldGoesBothWays) {
  CaptureSpec spec;
  spec.steps = 7;
  spec.warmup_steps = 0;
  spec.wait_steps = 2;
  spec.repeat = 3;
  spec.start_step = 0;
  spec.timeout = absl::Milliseconds(90'001);
  spec.memory_bytes = 3 << 20;
  spec.allow_less_memory = true;
  spec.max_bytes = 5 << 20;
  spec.display_name = "nächtlich";
  spec.labels = {{"a", "1"}, {"b.c", ""}};
  v1::CaptureSpec message;
  SpecToProto(spec, message);
  EXPECT_THAT(SpecFromProto(message), IsOkAndHolds(spec));

  CaptureSpec by_time;
  by_time.duration = absl::Nanoseconds(1'500'000'001);
  v1::CaptureSpec by_time_message;
  SpecToProto(by_time, by_time_message);
  EXPECT_THAT(SpecFromProto(by_time_message), IsOkAndHolds(by_time));
}

TEST(SpecTest, ATimeoutOfZeroIsSentAndRefused) {
  CaptureSpec spec = {.steps = 5, .timeout = absl::ZeroDuration()};
  v1::CaptureSpec message;
  SpecToProto(spec, message);
  EXPECT_THAT(SpecFromProto(message), StatusIs(Code::kInvalidArgument, HasSubstr("timeout")));
}

TEST(SpecTest, WhatIsOutOfRangeIsNamed) {
  const auto refused = [](const char* field, auto change) {
    v1::CaptureSpec spec = FiveSteps();
    change(spec);
    EXPECT_THAT(SpecFromProto(spec), StatusIs(Code::kInvalidArgument, HasSubstr(field))) << field;
  };
  refused("steps", [](v1::CaptureSpec& s) { s.set_steps(0); });
  refused("steps", [](v1::CaptureSpec& s) { s.set_steps(-1); });
  refused("steps", [](v1::CaptureSpec& s) { s.set_steps(1'000'001); });
  refused("warmup_steps", [](v1::CaptureSpec& s) { s.set_warmup_steps(-1); });
  refused("wait_steps", [](v1::CaptureSpec& s) { s.set_wait_steps(int64_t{1} << 62); });
  refused("repeat", [](v1::CaptureSpec& s) { s.set_repeat(65); });
  refused("start_step", [](v1::CaptureSpec& s) { s.set_start_step(-1); });
  refused("duration", [](v1::CaptureSpec& s) { s.mutable_duration()->set_seconds(1); });
  refused("timeout", [](v1::CaptureSpec& s) { s.mutable_timeout(); });
  refused("memory_bytes", [](v1::CaptureSpec& s) { s.set_memory_bytes(1); });
  refused("max_bytes", [](v1::CaptureSpec& s) { s.set_max_bytes(-1); });
  refused("display_name", [](v1::CaptureSpec& s) { s.set_display_name("a\nb"); });
  refused("label", [](v1::CaptureSpec& s) { (*s.mutable_labels())["Big"] = "x"; });
}

TEST(SpecTest, WhatToRecordOfTheGpuGoesBothWays) {
  v1::CaptureSpec spec = FiveSteps();
  spec.mutable_gpu()->set_mode(v1::GpuSpec::FULL);
  spec.mutable_gpu()->set_buffer_bytes(8 << 20);
  spec.mutable_gpu()->set_max_records(5'000);
  spec.mutable_gpu()->set_detach(true);
  spec.mutable_gpu()->set_latency(true);
  spec.set_step_marker("train_step");
  const auto out = SpecFromProto(spec);
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->gpu, (GpuSpec{.mode = GpuMode::kFull,
                               .buffer_bytes = 8 << 20,
                               .max_records = 5'000,
                               .detach = true,
                               .latency = true}));
  EXPECT_EQ(out->step_marker, "train_step");
  v1::CaptureSpec back;
  SpecToProto(*out, back);
  EXPECT_THAT(SpecFromProto(back), IsOkAndHolds(*out));
}

TEST(SpecTest, WhatIsNotSaidOfTheGpuIsTheDefault) {
  const auto out = SpecFromProto(FiveSteps());
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->gpu, GpuSpec());
  EXPECT_EQ(out->step_marker, "");
}

TEST(SpecTest, WhatToRecordOfTorchGoesBothWays) {
  v1::CaptureSpec spec = FiveSteps();
  spec.mutable_torch()->set_operators(v1::TorchSpec::SHAPES);
  spec.mutable_torch()->set_strides(true);
  spec.mutable_torch()->set_memory(true);
  spec.mutable_torch()->set_stacks(true);
  spec.mutable_torch()->set_modules(true);
  spec.mutable_torch()->set_step_source("dataloader");
  const auto out = SpecFromProto(spec);
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->torch, (TorchSpec{.operators = OperatorMode::kShapes,
                                   .strides = true,
                                   .memory = true,
                                   .stacks = true,
                                   .modules = true,
                                   .step_source = StepSource::kDataLoader}));
  v1::CaptureSpec back;
  SpecToProto(*out, back);
  EXPECT_THAT(SpecFromProto(back), IsOkAndHolds(*out));
}

TEST(SpecTest, StacksWithoutOperatorsAreRefused) {
  v1::CaptureSpec spec = FiveSteps();
  spec.mutable_torch()->set_operators(v1::TorchSpec::OFF);
  spec.mutable_torch()->set_stacks(true);
  EXPECT_THAT(SpecFromProto(spec), StatusIs(absl::StatusCode::kInvalidArgument));
  spec.mutable_torch()->set_operators(v1::TorchSpec::NAMES);
  EXPECT_THAT(SpecFromProto(spec), IsOk());
}

TEST(SpecTest, WhatIsNotSaidOfTorchIsTheDefault) {
  const auto out = SpecFromProto(FiveSteps());
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->torch, TorchSpec());
  v1::CaptureSpec back;
  SpecToProto(*out, back);
  EXPECT_EQ(back.torch().step_source(), "");
}

TEST(SpecTest, WhatCannotBeRecordedOfTorchIsNamed) {
  const auto refused = [](const char* field, auto change) {
    v1::CaptureSpec spec = FiveSteps();
    change(spec);
    EXPECT_THAT(SpecFromProto(spec), StatusIs(Code::kInvalidArgument, HasSubstr(field))) << field;
  };
  refused("torch.operators", [](v1::CaptureSpec& s) {
    s.mutable_torch()->set_operators(static_cast<v1::TorchSpec::Operators>(99));
  });
  refused("torch.strides", [](v1::CaptureSpec& s) {
    s.mutable_torch()->set_operators(v1::TorchSpec::NAMES);
    s.mutable_torch()->set_strides(true);
  });
  for (const char* source : {"none", "Optimizer", "steps", "\n"}) {
    refused("torch.step_source",
            [&](v1::CaptureSpec& s) { s.mutable_torch()->set_step_source(source); });
  }
  refused("torch.step_source", [](v1::CaptureSpec& s) {
    s.mutable_torch()->set_step_source("optimizer");
    s.set_start_step(7);
  });
}

TEST(SpecTest, WhatCannotBeRecordedOfTheGpuIsNamed) {
  const auto refused = [](const char* field, auto change) {
    v1::CaptureSpec spec = FiveSteps();
    change(spec);
    EXPECT_THAT(SpecFromProto(spec), StatusIs(Code::kInvalidArgument, HasSubstr(field))) << field;
  };
  refused("gpu.mode", [](v1::CaptureSpec& s) {
    s.mutable_gpu()->set_mode(static_cast<v1::GpuSpec::Mode>(99));
  });
  refused("gpu.buffer_bytes", [](v1::CaptureSpec& s) { s.mutable_gpu()->set_buffer_bytes(1); });
  refused("gpu.buffer_bytes", [](v1::CaptureSpec& s) { s.mutable_gpu()->set_buffer_bytes(-1); });
  refused("gpu.max_records", [](v1::CaptureSpec& s) { s.mutable_gpu()->set_max_records(999); });
  refused("step_marker", [](v1::CaptureSpec& s) { s.set_step_marker(std::string(256, 'a')); });
  refused("step_marker", [](v1::CaptureSpec& s) { s.set_step_marker("a\nb"); });
  refused("step_marker", [](v1::CaptureSpec& s) {
    s.set_step_marker("train");
    s.set_start_step(7);
  });
}

TEST(CaptureTest, WhatIsKnownOfTheGpuIsSaid) {
  CaptureRecord record;
  record.activity = "attaching";
  record.gpu = {.outcome = GpuOutcome::kBroken,
                .mode = GpuMode::kLight,
                .problem = "bad \xff",
                .simulated = true,
                .cupti_version = 1,
                .driver_version = 2,
                .arm_ns = 3,
                .clock_error_ns = 4,
                .clock_step_count = 5,
                .peak_pool_bytes = 6,
                .devices = {{.number = 7,
                             .name = "GPU",
                             .uuid = "GPU-1",
                             .memory_bytes = 8,
                             .compute_major = 9,
                             .compute_minor = 10,
                             .sm_count = 11}},
                .kind_failures = {{.kind = "kind", .result = "result"}},
                .record_count = 12,
                .stale_count = 13,
                .before_window_count = 14,
                .after_window_count = 15,
                .filtered_api_count = 16,
                .orphan_count = 17,
                .straddling_count = 18,
                .unfinished_count = 19};
  v1::Capture message;
  CaptureToProto(record, message);
  EXPECT_EQ(message.activity(), "attaching");
  const v1::GpuInfo& gpu = message.gpu();
  EXPECT_EQ(gpu.outcome(), "broken");
  EXPECT_EQ(gpu.mode(), "light");
  EXPECT_EQ(gpu.problem(), "bad \xef\xbf\xbd");
  EXPECT_TRUE(gpu.simulated());
  EXPECT_EQ(gpu.cupti_version(), 1);
  EXPECT_EQ(gpu.driver_version(), 2);
  EXPECT_EQ(gpu.arm_ns(), 3);
  EXPECT_EQ(gpu.clock_error_ns(), 4);
  EXPECT_EQ(gpu.clock_step_count(), 5);
  EXPECT_EQ(gpu.peak_pool_bytes(), 6);
  ASSERT_EQ(gpu.devices_size(), 1);
  EXPECT_EQ(gpu.devices(0).number(), 7);
  EXPECT_EQ(gpu.devices(0).uuid(), "GPU-1");
  EXPECT_EQ(gpu.devices(0).memory_bytes(), 8);
  EXPECT_EQ(gpu.devices(0).compute_major(), 9);
  EXPECT_EQ(gpu.devices(0).compute_minor(), 10);
  EXPECT_EQ(gpu.devices(0).sm_count(), 11);
  ASSERT_EQ(gpu.kind_failures_size(), 1);
  EXPECT_EQ(gpu.kind_failures(0).result(), "result");
  EXPECT_EQ(gpu.record_count(), 12);
  EXPECT_EQ(gpu.stale_count(), 13);
  EXPECT_EQ(gpu.before_window_count(), 14);
  EXPECT_EQ(gpu.after_window_count(), 15);
  EXPECT_EQ(gpu.filtered_api_count(), 16);
  EXPECT_EQ(gpu.orphan_count(), 17);
  EXPECT_EQ(gpu.straddling_count(), 18);
  EXPECT_EQ(gpu.unfinished_count(), 19);
}

TEST(SpecTest, DurationsThatAreNoneAreRefused) {
  const auto with = [](int64_t seconds, int32_t nanos) {
    v1::CaptureSpec spec;
    spec.mutable_duration()->set_seconds(seconds);
    spec.mutable_duration()->set_nanos(nanos);
    return SpecFromProto(spec);
  };
  EXPECT_THAT(with(0, 1), IsOk());
  EXPECT_THAT(with(3600, 0), IsOk());
  for (const auto& [seconds, nanos] :
       std::vector<std::pair<int64_t, int32_t>>{{0, 0},
                                                {-1, 0},
                                                {3600, 1},
                                                {1, -1},
                                                {-1, 1},
                                                {0, 1'000'000'000},
                                                {std::numeric_limits<int64_t>::max(), 0},
                                                {std::numeric_limits<int64_t>::min(), 0}}) {
    EXPECT_THAT(with(seconds, nanos), StatusIs(Code::kInvalidArgument, HasSubstr("duration")))
        << seconds << " " << nanos;
  }
}

TEST(TimeTest, TimesGoBothWaysToTheNanosecond) {
  for (const absl::Time time :
       {absl::UnixEpoch(), absl::FromUnixNanos(1), absl::FromUnixNanos(-1),
        absl::FromUnixNanos(1'800'000'000'123'456'789), absl::FromUnixSeconds(-62135596800)}) {
    google::protobuf::Timestamp message;
    TimeToProto(time, message);
    EXPECT_GE(message.nanos(), 0);
    EXPECT_THAT(TimeFromProto(message, "t"), IsOkAndHolds(time));
  }
}

TEST(TimeTest, WhatATimestampCannotSayIsCut) {
  google::protobuf::Timestamp message;
  TimeToProto(absl::InfiniteFuture(), message);
  EXPECT_EQ(message.seconds(), 253402300799);
  EXPECT_EQ(message.nanos(), 999'999'999);
  TimeToProto(absl::InfinitePast(), message);
  EXPECT_EQ(message.seconds(), -62135596800);
  google::protobuf::Duration duration;
  DurationToProto(absl::InfiniteDuration(), duration);
  EXPECT_EQ(duration.seconds(), 315576000000);
  DurationToProto(-absl::Nanoseconds(1'500'000'000), duration);
  EXPECT_EQ(duration.seconds(), -1);
  EXPECT_EQ(duration.nanos(), -500'000'000);
}

TEST(CaptureTest, WhatIsKnownOfTorchIsSaid) {
  CaptureRecord record;
  record.target.step_source = StepSource::kDataLoader;
  record.target.batch_count = 1;
  record.torch = {.outcome = TorchOutcome::kLimited,
                  .operators = OperatorMode::kNames,
                  .memory = true,
                  .version = "2.6\xff",
                  .missing = {{.feature = "shapes", .reason = "why"}},
                  .step_source = StepSource::kOptimizer,
                  .operator_count = 2,
                  .tensor_use_count = 3,
                  .note_count = 4,
                  .block_count = 5,
                  .folded_count = 6,
                  .cut_input_count = 7,
                  .odd_tensor_count = 8,
                  .lost_note_count = 9,
                  .missed_memory_count = 10,
                  .stack_count = 11,
                  .missing_stack_count = 12};
  v1::Capture message;
  CaptureToProto(record, message);
  EXPECT_EQ(message.target().step_source(), "dataloader");
  EXPECT_EQ(message.target().batch_count(), 1);
  const v1::TorchInfo& torch = message.torch();
  EXPECT_EQ(torch.outcome(), "limited");
  EXPECT_EQ(torch.operators(), "names");
  EXPECT_TRUE(torch.memory());
  EXPECT_EQ(torch.version(), "2.6\xef\xbf\xbd");
  ASSERT_EQ(torch.missing_size(), 1);
  EXPECT_EQ(torch.missing(0).feature(), "shapes");
  EXPECT_EQ(torch.missing(0).reason(), "why");
  EXPECT_EQ(torch.step_source(), "optimizer");
  EXPECT_EQ(torch.operator_count(), 2);
  EXPECT_EQ(torch.tensor_use_count(), 3);
  EXPECT_EQ(torch.note_count(), 4);
  EXPECT_EQ(torch.block_count(), 5);
  EXPECT_EQ(torch.folded_count(), 6);
  EXPECT_EQ(torch.cut_input_count(), 7);
  EXPECT_EQ(torch.odd_tensor_count(), 8);
  EXPECT_EQ(torch.lost_note_count(), 9);
  EXPECT_EQ(torch.missed_memory_count(), 10);
  EXPECT_EQ(torch.stack_count(), 11);
  EXPECT_EQ(torch.missing_stack_count(), 12);
}

TEST(CaptureTest, WhatIsNotSetIsAbsent) {
  CaptureRecord record;
  record.id = kId;
  record.armed_time = absl::InfinitePast();
  record.end_time = absl::InfiniteFuture();
  v1::Capture message;
  CaptureToProto(record, message);
  EXPECT_EQ(message.name(), "captures/" + std::string(kId));
  EXPECT_EQ(message.group(), "");
  EXPECT_FALSE(message.has_armed_time());
  EXPECT_FALSE(message.has_end_time());
  EXPECT_EQ(message.ended_by(), "");
  EXPECT_EQ(message.current_step(), -1);
  EXPECT_TRUE(message.dropped_by_reason().empty());
}

TEST(CaptureTest, DropsAreCountedByCause) {
  CaptureRecord record;
  record.drops[static_cast<size_t>(DropReason::kNoChunk)] = 40;
  record.drops[static_cast<size_t>(DropReason::kDisk)] = 2;
  v1::Capture message;
  CaptureToProto(record, message);
  EXPECT_EQ(message.dropped_event_count(), 42);
  const std::map<std::string, int64_t> by_reason(message.dropped_by_reason().begin(),
                                                 message.dropped_by_reason().end());
  EXPECT_THAT(by_reason, ElementsAre(Pair("disk", 2), Pair("no_chunk", 40)));
}

TEST(CaptureTest, TextThatIsNotUtf8CanStillBeSent) {
  CaptureRecord record;
  record.id = kId;
  record.error_message = "bad \xff";
  record.target.command = "\xc3(";
  record.target.metadata = {{"k\xff", "v\xff"}};
  v1::Capture message;
  CaptureToProto(record, message);
  std::string wire;
  EXPECT_TRUE(message.SerializeToString(&wire));
  v1::Capture again;
  EXPECT_TRUE(again.ParseFromString(wire)) << "a proto3 string must be UTF-8";
  EXPECT_EQ(again.error_message(), "bad \xEF\xBF\xBD");
}

TEST(CaptureTest, UnknownStatesAreRefused) {
  EXPECT_THAT(StateFromProto(v1::Capture::STATE_UNSPECIFIED), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(StateFromProto(static_cast<v1::Capture::State>(77)),
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(StateFromProto(v1::Capture::PARTIAL), IsOkAndHolds(CaptureState::kPartial));
}

// ---- names ----

TEST(NamesTest, NamesGoBothWays) {
  EXPECT_THAT(ParseTargetName(TargetName(7)), IsOkAndHolds(7));
  EXPECT_THAT(ParseCaptureName(CaptureName(kId)), IsOkAndHolds(std::string(kId)));
  EXPECT_THAT(ParseCaptureName("captures/01arz"), IsOkAndHolds(std::string("01ARZ")));
  EXPECT_THAT(ParseGroupName(GroupName(kId)), IsOkAndHolds(std::string(kId)));
}

TEST(NamesTest, WhatIsNoNameIsRefused) {
  for (const char* name : {"", "7", "targets/", "targets/0", "targets/-1", "targets/7 ",
                           "targets/99999999999999999999", "captures/7"}) {
    EXPECT_THAT(ParseTargetName(name), StatusIs(Code::kInvalidArgument)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("captures/"), std::string("captures/../x"),
        std::string("captures/01ARZ3NDEKTSV4RRFFQ69G5FAVX"), std::string("captures/U"),
        std::string("captures/\xff\n"), std::string("groups/") + kId}) {
    EXPECT_THAT(ParseCaptureName(name), StatusIs(Code::kInvalidArgument)) << name;
  }
  EXPECT_THAT(ParseGroupName("groups/01ARZ"), StatusIs(Code::kInvalidArgument));
}

TEST(NamesTest, RequestIdsAreShortAndPrintable) {
  EXPECT_THAT(CheckRequestId(""), IsOk());
  EXPECT_THAT(CheckRequestId(std::string(64, 'a')), IsOk());
  EXPECT_THAT(CheckRequestId(std::string(65, 'a')), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(CheckRequestId("a\n"), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(CheckRequestId("\xc3\xa4"), StatusIs(Code::kInvalidArgument));
}

TEST(NamesTest, APageTokenHoldsForItsFilterOnly) {
  const std::string token = MakePageToken("position 7", "filter a");
  EXPECT_THAT(ParsePageToken(token, "filter a"), IsOkAndHolds(std::string("position 7")));
  EXPECT_THAT(ParsePageToken(token, "filter b"), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(ParsePageToken("", "filter a"), IsOkAndHolds(std::string()));
  EXPECT_THAT(ParsePageToken("!!", ""), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(ParsePageToken(token.substr(0, 8), "filter a"), StatusIs(Code::kInvalidArgument));
}

// ---- status ----

TEST(StatusTest, CodeAndCleanedMessageCross) {
  const grpc::Status status =
      ToGrpcStatus(absl::NotFoundError("no \xff\n" + std::string(5000, 'x')));
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_LE(status.error_message().size(), kMaxMessageBytes);
  EXPECT_THAT(status.error_message(), testing::StartsWith("no \xEF\xBF\xBD?x"));
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(StatusTest, OnlyStableReasonsAreSent) {
  const auto reason = [](std::string_view text) {
    return ReasonMetadata(WithReason(absl::AbortedError("x"), text));
  };
  EXPECT_EQ(reason("NO_STEPS"), "NO_STEPS");
  EXPECT_EQ(reason("bad\r\nheader: x"), "");
  EXPECT_EQ(reason(std::string(65, 'A')), "");
  EXPECT_EQ(ReasonMetadata(absl::AbortedError("x")), "");
}

}  // namespace
}  // namespace profd::rpc
