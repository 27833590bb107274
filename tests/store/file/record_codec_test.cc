// Every field of a record is kept; records of other versions are read as far as they go.
#include "daemon/store/file/record_codec.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::SizeIs;
using Json = nlohmann::json;

absl::Time Time(int64_t number) { return absl::FromUnixNanos(1'790'000'000'000'000'000 + number); }

// No field has its default.
CaptureRecord FullRecord() {
  CaptureRecord r;
  r.id = "id";
  r.group_id = "group";
  r.request_id = "request";
  r.spec = {.steps = 1,
            .warmup_steps = 2,
            .wait_steps = 3,
            .repeat = 4,
            .start_step = 5,
            .duration = absl::Nanoseconds(6),
            .timeout = absl::Nanoseconds(7),
            .memory_bytes = 8,
            .allow_less_memory = true,
            .max_bytes = 9,
            .gpu = {.mode = GpuMode::kFull,
                    .buffer_bytes = 101,
                    .max_records = 102,
                    .detach = true,
                    .latency = true},
            .torch = {.operators = OperatorMode::kShapes,
                      .strides = true,
                      .memory = true,
                      .stacks = true,
                      .modules = true,
                      .step_source = StepSource::kOptimizer},
            .step_marker = "train_step",
            .display_name = "a \"name\"\n",
            .labels = {{"key", "value"}, {"k2", ""}}};
  r.requested_by_uid = 10;
  r.requested_by = "cn:alice";
  r.schedule_id = "01SCHEDULE";
  r.schedule_window_unix_ns = 137;
  r.sampling_weight = 12.5;
  r.target = {.number = 11,
              .pid = 12,
              .uid = 13,
              .gid = 14,
              .parent_pid = 15,
              .process_start_ticks = 16,
              .namespace_pid = 17,
              .foreign_namespace = true,
              .command = "command",
              .cgroup = "cgroup",
              .library_version = "version",
              .protocol_version = 18,
              .metadata = {{"rank", "3"}},
              .registered_time = Time(19),
              .state = TargetState::kGone,
              .step_mark_count = 20,
              .current_step = 21,
              .steps_per_second = 0.1,
              .dropped_event_count = 22,
              .foreign_step_mark_count = 23,
              .step_source = StepSource::kDataLoader,
              .batch_count = 136,
              .workload = {.slurm_job = "138",
                           .pod_uid = "pod",
                           .pod_namespace = "namespace",
                           .pod_name = "name",
                           .container_id = "container"},
              .opted_out = true};
  r.node = "node";
  r.state = CaptureState::kPartial;
  r.ended_by = EndedBy::kStorage;
  r.error_reason = "REASON";
  r.error_message = "message";
  r.create_time = Time(24);
  r.armed_time = Time(25);
  r.end_time = Time(26);
  r.start_unix_ns = 27;
  r.covered_ns = 28;
  r.covered_steps = 29;
  r.windows = {{30, 31, 32, 33}, {34, 35, 36, 37}};
  r.current_window = 38;
  r.current_step = 39;
  r.event_count = 40;
  for (size_t i = 0; i < r.drops.size(); ++i) r.drops[i] = 41 + static_cast<int64_t>(i);
  r.warmup_event_count = 60;
  r.open_range_count = 61;
  r.truncated_range_count = 62;
  r.other_name_event_count = 63;
  r.foreign_step_mark_count = 64;
  r.clock_error_ns = 65;
  r.gpu = {
      .outcome = GpuOutcome::kBroken,
      .mode = GpuMode::kLight,
      .problem = "problem",
      .simulated = true,
      .cupti_version = 103,
      .driver_version = 104,
      .arm_ns = 105,
      .clock_error_ns = 106,
      .clock_step_count = 107,
      .peak_pool_bytes = 108,
      .devices = {{.number = 109,
                   .name = "device",
                   .uuid = "GPU-0",
                   .memory_bytes = 110,
                   .compute_major = 111,
                   .compute_minor = 112,
                   .sm_count = 113,
                   .warp_threads = 114,
                   .max_threads_per_block = 115,
                   .max_threads_per_sm = 116,
                   .max_blocks_per_sm = 117,
                   .registers_per_block = 118,
                   .registers_per_sm = 119,
                   .shared_bytes_per_block = 120,
                   .shared_bytes_per_sm = 121,
                   .shared_bytes_per_block_optin = 122}},
      .streams = {{.context = 123, .stream = 124, .device = 125, .priority = 126, .flags = 127}},
      .kind_failures = {{.kind = "kind", .result = "result"}},
      .record_count = 128,
      .stale_count = 129,
      .before_window_count = 130,
      .after_window_count = 131,
      .filtered_api_count = 132,
      .orphan_count = 133,
      .straddling_count = 134,
      .unfinished_count = 135};
  r.torch = {.outcome = TorchOutcome::kLimited,
             .operators = OperatorMode::kNames,
             .memory = true,
             .version = "2.6.0",
             .missing = {{.feature = "shapes", .reason = "reason"}},
             .step_source = StepSource::kProfiler,
             .operator_count = 137,
             .tensor_use_count = 138,
             .note_count = 139,
             .block_count = 140,
             .folded_count = 141,
             .cut_input_count = 142,
             .odd_tensor_count = 143,
             .lost_note_count = 144,
             .missed_memory_count = 145,
             .stack_count = 146,
             .missing_stack_count = 147};
  r.cpu = {.watched_ns = 156,
           .after_watched_ns = 180,
           .thread_count = 157,
           .ran_ns = 158,
           .waited_ns = 159,
           .threads = {{.os_thread = 160,
                        .ran_ns = 161,
                        .waited_ns = 162,
                        .after_ran_ns = 178,
                        .after_waited_ns = 179}},
           .child_count = 165,
           .children_ran_ns = 166,
           .children_waited_ns = 167,
           .samples = {{.time_ns = 168, .waited_ns = 169, .children_waited_ns = 170}},
           .unread_thread_count = 171,
           .unread_child_count = 172,
           .ended_thread_count = 173,
           .unwatched_ran_ns = 174,
           .resident_begin_bytes = 163,
           .resident_end_bytes = 164};
  r.imported = {.source = "source",
                .producer = "producer",
                .time_unit_ns = 146,
                .not_understood = {{"kind", 147}},
                .members = {{"key", "[155]"}}};
  r.activity = "activity";
  r.step_before_ns = 66;
  r.step_during_ns = 67;
  r.step_after_ns = 68;
  r.around_step_count = 175;
  r.around_step_mean_ns = 176;
  r.around_slow_step_count = 177;
  r.slowdown = {.known = true,
                .unknown_reason = "unknown",
                .estimate = 0.25,
                .low = 0.125,
                .high = 0.5,
                .before_step_count = 150,
                .during_step_count = 151,
                .after_step_count = 152,
                .cupti_stays = true,
                .remains_known = true,
                .remains = 0.0625,
                .remains_low = 0.03125,
                .remains_high = 0.75};
  r.graded = {.grade = "B",
              .checks = {{.name = "check",
                          .grade = 'C',
                          .known = false,
                          .is_share = true,
                          .value = 153,
                          .bound = 154,
                          .sentence = "sentence"}}};
  r.file_bytes = 69;
  r.file_sha256 = "sha";
  r.deleted = true;
  r.evicted = true;
  return r;
}

TEST(RecordCodecTest, CountsBelowNothingMakeWaitsForACpuUnknown) {
  CaptureRecord record = FullRecord();
  ASSERT_GT(DecodeRecord(EncodeRecord(record))->cpu.watched_ns, 0);
  for (int64_t CpuRecord::*count : {&CpuRecord::unread_thread_count, &CpuRecord::unread_child_count,
                                    &CpuRecord::ended_thread_count}) {
    record = FullRecord();
    record.cpu.*count = -1;
    EXPECT_EQ(DecodeRecord(EncodeRecord(record))->cpu.watched_ns, 0);
  }
}

TEST(RecordCodecTest, WaitsForACpuThatDecreaseAreNone) {
  CaptureRecord record = FullRecord();
  record.cpu.samples = {{.time_ns = 1, .waited_ns = 5}, {.time_ns = 2, .waited_ns = 5}};
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->cpu.samples.size(), 2u);
  record.cpu.samples[1].waited_ns = 4;
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->cpu.watched_ns, 0);
  record.cpu.samples[1] = {.time_ns = 0, .waited_ns = 5};
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->cpu.watched_ns, 0);
}

// Fails when a field is added to a struct and not to Visit(), or not to FullRecord().
TEST(RecordCodecTest, KnowsEveryFieldOfTheStructs) {
  const Json full = Json::parse(EncodeRecord(FullRecord()));
  const Json empty = Json::parse(EncodeRecord(CaptureRecord()));
  const auto expect_all_differ = [](const Json& a, const Json& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [key, value] : a.items()) EXPECT_NE(value, b[key]) << key;
  };
  expect_all_differ(full, empty);
  expect_all_differ(full["spec"], empty["spec"]);
  expect_all_differ(full["target"], empty["target"]);
  expect_all_differ(full["spec"]["gpu"], empty["spec"]["gpu"]);
  expect_all_differ(full["spec"]["torch"], empty["spec"]["torch"]);
  expect_all_differ(full["gpu"], empty["gpu"]);
  expect_all_differ(full["torch"], empty["torch"]);
  expect_all_differ(full["imported"], empty["imported"]);
  expect_all_differ(full["slowdown"], empty["slowdown"]);
  expect_all_differ(full["graded"], empty["graded"]);
  expect_all_differ(full["cpu"], empty["cpu"]);
  EXPECT_THAT(full, SizeIs(49));
  EXPECT_THAT(full["cpu"], SizeIs(16));
  EXPECT_THAT(full["cpu"]["threads"][0], SizeIs(5));
  EXPECT_THAT(full["cpu"]["samples"][0], SizeIs(3));
  EXPECT_THAT(full["slowdown"], SizeIs(13));
  EXPECT_THAT(full["graded"]["checks"][0], SizeIs(7));
  EXPECT_THAT(full["spec"], SizeIs(15));
  EXPECT_THAT(full["spec"]["gpu"], SizeIs(5));
  EXPECT_THAT(full["spec"]["torch"], SizeIs(6));
  EXPECT_THAT(full["target"], SizeIs(24));
  EXPECT_THAT(full["windows"][0], SizeIs(4));
  EXPECT_THAT(full["gpu"], SizeIs(21));
  EXPECT_THAT(full["gpu"]["devices"][0], SizeIs(16));
  EXPECT_THAT(full["gpu"]["streams"][0], SizeIs(5));
  EXPECT_THAT(full["gpu"]["kind_failures"][0], SizeIs(2));
  EXPECT_THAT(full["torch"], SizeIs(17));
  EXPECT_THAT(full["torch"]["missing"][0], SizeIs(2));
}

TEST(RecordCodecTest, GivesBackEveryField) {
  const CaptureRecord record = FullRecord();
  const auto back = DecodeRecord(EncodeRecord(record));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(EncodeRecord(*back), EncodeRecord(record));
  EXPECT_EQ(back->spec, record.spec);
  EXPECT_EQ(back->target.steps_per_second, 0.1);
  EXPECT_EQ(back->target.registered_time, record.target.registered_time);
  EXPECT_EQ(back->target.metadata, record.target.metadata);
  EXPECT_EQ(back->windows[1].end_step, 37);
  EXPECT_EQ(back->drops, record.drops);
  EXPECT_EQ(back->ended_by, EndedBy::kStorage);
  EXPECT_EQ(back->gpu.outcome, GpuOutcome::kBroken);
  EXPECT_EQ(back->gpu.devices[0].shared_bytes_per_block_optin, 122);
  EXPECT_EQ(back->gpu.streams[0].device, 125);
  EXPECT_EQ(back->gpu.kind_failures[0].result, "result");
  EXPECT_EQ(back->torch.outcome, TorchOutcome::kLimited);
  EXPECT_EQ(back->torch.missing[0].reason, "reason");
  EXPECT_EQ(back->imported.not_understood.at("kind"), 147);
  EXPECT_EQ(back->imported.members.at("key"), "[155]");
  EXPECT_EQ(back->target.step_source, StepSource::kDataLoader);
}

TEST(RecordCodecTest, AGradeThatIsNoneIsComputedAnew) {
  CaptureRecord record = FullRecord();
  record.graded.checks[0].sentence = "bad \x1b[2J text";
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->graded.grade, "B");
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->graded.checks[0].sentence.find('\x1b'),
            std::string::npos);
  for (const std::string grade : {"E", "AA", "-"}) {
    record.graded.grade = grade;
    EXPECT_EQ(DecodeRecord(EncodeRecord(record))->graded, GradeRecord()) << grade;
  }
  record = FullRecord();
  record.graded.checks[0].grade = 'Z';
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->graded, GradeRecord());
  record = FullRecord();
  record.graded.checks.resize(65, record.graded.checks[0]);
  EXPECT_EQ(DecodeRecord(EncodeRecord(record))->graded, GradeRecord());
}

GroupRecord FullGroup() {
  return {.id = "group",
          .members = {{.node = "node",
                       .address = "node:7000",
                       .capture_id = "capture",
                       .pid = 1,
                       .rank = 2,
                       .state = CaptureState::kPartial,
                       .error = "error",
                       .clock_offset_ns = -3,
                       .clock_bound_ns = 4}},
          .first_step = 5,
          .steps = 6,
          .create_time = absl::FromUnixNanos(7),
          .requested_by = "cn:alice",
          .closed = true};
}

TEST(GroupCodecTest, GivesBackEveryField) {
  const auto back = DecodeGroup(EncodeGroup(FullGroup()));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, FullGroup());
  const Json json = Json::parse(EncodeGroup(FullGroup()));
  EXPECT_THAT(json, SizeIs(7)) << "a new field goes into FullGroup(), too";
  EXPECT_THAT(json["members"][0], SizeIs(9));
}

TEST(GroupCodecTest, OtherTypesAndTooManyMembersAreDataLoss) {
  EXPECT_THAT(DecodeGroup("[]"), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(DecodeGroup(R"({"members": [{"state": 99}]})"), StatusIs(StatusCode::kDataLoss));
  Json json = {{"members", Json::array()}};
  for (int64_t i = 0; i < kMaxGroupMembers; ++i) json["members"].push_back(Json::object());
  EXPECT_THAT(DecodeGroup(json.dump()), IsOk());
  json["members"].push_back(Json::object());
  EXPECT_THAT(DecodeGroup(json.dump()), StatusIs(StatusCode::kDataLoss));
}

// As a profd without GPU captures wrote it.
TEST(RecordCodecTest, ARecordFromBeforeGpuCapturesHasNone) {
  const auto back = DecodeRecord(
      R"({"id": "x", "spec": {"steps": 3}, "drops": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]})");
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->gpu.outcome, GpuOutcome::kOff);
  EXPECT_THAT(back->gpu.devices, SizeIs(0));
  EXPECT_EQ(back->torch.outcome, TorchOutcome::kOff);
  EXPECT_EQ(back->spec.torch, TorchSpec());
  EXPECT_EQ(back->drops[static_cast<size_t>(DropReason::kStuckWriter)], 10);
  EXPECT_EQ(back->drops[static_cast<size_t>(DropReason::kCuptiDropped)], 0);
  EXPECT_EQ(TotalDrops(back->drops), 55 - 4);
}

TEST(RecordCodecTest, KeepsTimesThatAreNotYet) {
  CaptureRecord record;
  record.armed_time = absl::InfinitePast();
  record.end_time = absl::InfiniteFuture();
  record.spec.timeout = absl::InfiniteDuration();
  const auto back = DecodeRecord(EncodeRecord(record));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->armed_time, absl::InfinitePast());
  EXPECT_EQ(back->end_time, absl::InfiniteFuture());
  EXPECT_EQ(back->spec.timeout, absl::InfiniteDuration());
  EXPECT_EQ(back->create_time, record.create_time);
}

TEST(RecordCodecTest, MissingAndUnknownFieldsAreNoError) {
  const auto back = DecodeRecord(R"({"id": "x", "from_the_future": {"a": [1, 2]},
      "spec": {"steps": 3, "new": null}, "drops": [7]})");
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->id, "x");
  EXPECT_EQ(back->spec.steps, 3);
  EXPECT_EQ(back->spec.warmup_steps, CaptureSpec().warmup_steps);
  EXPECT_EQ(back->drops[0], 7);
  EXPECT_EQ(back->drops[1], 0);
  EXPECT_EQ(back->state, CaptureState::kPending);
}

TEST(RecordCodecTest, TextThatIsNotUtf8IsCleaned) {
  CaptureRecord record;
  record.target.command =
      "a\xff\xfe"
      "b";
  record.error_message = std::string("nul\0inside", 10);
  const auto back = DecodeRecord(EncodeRecord(record));
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(back->target.command.starts_with("a\xef\xbf\xbd"));
  EXPECT_EQ(back->error_message, record.error_message);
}

TEST(RecordCodecTest, WhatIsNotANumberIsKeptAsNone) {
  CaptureRecord record;
  record.target.steps_per_second = std::numeric_limits<double>::quiet_NaN();
  const auto back = DecodeRecord(EncodeRecord(record));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->target.steps_per_second, 0);
}

TEST(RecordCodecHostileTest, OtherTypesAndValuesAreDataLoss) {
  for (const char* text : {"",
                           "{",
                           "null",
                           "[]",
                           "7",
                           "\"x\"",
                           R"({"id": 7})",
                           R"({"spec": []})",
                           R"({"event_count": "1"})",
                           R"({"event_count": 1.5})",
                           R"({"event_count": 9223372036854775808})",
                           R"({"state": 0})",
                           R"({"state": 99})",
                           R"({"ended_by": -1})",
                           R"({"deleted": 1})",
                           R"({"windows": [1]})",
                           R"({"windows": {}})",
                           R"({"drops": ["a"]})",
                           R"({"spec": {"labels": ["a"]}})",
                           R"({"spec": {"labels": {"a": 1}}})",
                           R"({"target": {"protocol_version": 4294967296}})",
                           R"({"gpu": []})",
                           R"({"gpu": {"outcome": 5}})",
                           R"({"gpu": {"mode": -1}})",
                           R"({"gpu": {"simulated": 1}})",
                           R"({"gpu": {"devices": {}}})",
                           R"({"gpu": {"devices": ["H200"]}})",
                           R"({"gpu": {"streams": [{"context": "1"}]}})",
                           R"({"gpu": {"kind_failures": [{"kind": 1}]}})",
                           R"({"spec": {"gpu": {"mode": 9}}})",
                           R"({"cpu": []})",
                           R"({"cpu": {"threads": [1]}})",
                           R"({"torch": []})",
                           R"({"torch": {"outcome": 5}})",
                           R"({"torch": {"operators": 4}})",
                           R"({"torch": {"step_source": 6}})",
                           R"({"torch": {"missing": ["shapes"]}})",
                           R"({"target": {"step_source": -1}})",
                           R"({"spec": {"torch": {"operators": 4}}})",
                           R"({"spec": {"torch": {"memory": 1}}})",
                           R"({"activity": null})",
                           "{\"id\": \"\xff\"}"}) {
    EXPECT_THAT(DecodeRecord(text), StatusIs(StatusCode::kDataLoss)) << text;
  }
}

TEST(RecordCodecHostileTest, ArraysHaveACap) {
  Json json = {{"gpu", {{"streams", Json::array()}}}};
  for (int i = 0; i < 4096; ++i) json["gpu"]["streams"].push_back(Json::object());
  EXPECT_THAT(DecodeRecord(json.dump()), IsOk());
  json["gpu"]["streams"].push_back(Json::object());
  EXPECT_THAT(DecodeRecord(json.dump()), StatusIs(StatusCode::kDataLoss));
}

TEST(RecordCodecHostileTest, DeepOrLongTextIsRefusedWithoutHarm) {
  std::string deep = "{\"id\":";
  deep.append(100'000, '[');
  EXPECT_THAT(DecodeRecord(deep), StatusIs(StatusCode::kDataLoss));
  deep.append(100'000, ']');
  EXPECT_THAT(DecodeRecord(deep + "}"), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(DecodeRecord(std::string(9 << 20, ' ')), StatusIs(StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::store
