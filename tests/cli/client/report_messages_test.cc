// A report goes through gRPC's messages and comes out as it went in; what a hostile daemon sends is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "cli/client/from_proto.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/reports.h"
#include "daemon/report/time/time_report.h"
#include "daemon/rpc/convert/report.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Report MessageOf(const table::Report& report) {
  v1::Report message;
  rpc::ReportToProto(report, message);
  v1::Report again;
  EXPECT_TRUE(again.ParseFromString(message.SerializeAsString())) << "a string must be UTF-8";
  return again;
}

table::Report KernelReport() {
  report::KernelTable kernels = {.kernel_count = 7, .busy_ns = std::numeric_limits<int64_t>::max()};
  kernels.rows = {{.name = std::string("k\xff\0x", 4),
                   .display_name = "k",
                   .count = std::numeric_limits<int64_t>::max(),
                   .total_ns = std::numeric_limits<int64_t>::min(),
                   .share = 0.1,
                   .grid = {1, 2, 3},
                   .uses_tensor_cores = true},
                  {.name = "k", .display_name = "k", .count = -1, .total_ns = 5}};
  return report::ToReport(kernels);
}

TEST(ReportMessageTest, EveryReportComesOutAsItWentIn) {
  const absl::StatusOr<table::Report> again = FromProto(MessageOf(KernelReport()));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, KernelReport());
  for (const report::ReportKind& kind : report::ReportKinds()) {
    const absl::StatusOr<table::Report> shape = FromProto(MessageOf(kind.shape()));
    ASSERT_THAT(shape, IsOk()) << kind.name;
    EXPECT_EQ(*shape, kind.shape());
  }
}

TEST(ReportMessageTest, EqualTextsAreSentOnce) {
  const v1::Report message = MessageOf(KernelReport());
  EXPECT_THAT(message.tables(0).cells(0).words(), ElementsAre("k"));
  EXPECT_THAT(message.tables(0).cells(0).texts(), ElementsAre(0, 0));
}

TEST(ReportMessageTest, PartsThatDoNotFitAreRefused) {
  const auto refused = [](const auto& spoil) {
    v1::Report message = MessageOf(KernelReport());
    spoil(message);
    EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kDataLoss));
  };
  refused([](v1::Report& report) { report.clear_name(); });
  refused([](v1::Report& report) { report.mutable_tables(0)->mutable_cells()->RemoveLast(); });
  refused([](v1::Report& report) { report.mutable_tables(0)->mutable_cells(0)->set_texts(1, 9); });
  refused([](v1::Report& report) { report.mutable_tables(0)->mutable_cells(0)->clear_texts(); });
  refused(
      [](v1::Report& report) { report.mutable_tables(0)->mutable_columns(1)->set_key("count"); });
  refused(
      [](v1::Report& report) { report.mutable_tables(0)->mutable_columns(1)->set_key("\x1b"); });
  refused([](v1::Report& report) { *report.add_tables() = report.tables(0); });
  refused([](v1::Report& report) {
    for (v1::Cells& cells : *report.mutable_totals()->mutable_cells()) cells.clear_int_deltas();
  });
  refused([](v1::Report& report) {
    for (v1::Cells& cells : *report.mutable_tables(0)->mutable_cells()) {
      if (cells.sizes_size() > 0) cells.add_sizes(1);
    }
  });
}

TEST(ReportMessageTest, AColumnOfANewerTypeSaysWhatToDo) {
  v1::Report message = MessageOf(KernelReport());
  message.mutable_tables(0)->mutable_columns(0)->set_type(static_cast<v1::Column::Type>(99));
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("install the daemon's version")));
}

TEST(ReportMessageTest, AColumnOfANewerUnitIsAPlainNumber) {
  v1::Report message = MessageOf(KernelReport());
  message.mutable_tables(0)->mutable_columns(2)->set_unit(static_cast<v1::Column::Unit>(99));
  const absl::StatusOr<table::Report> report = FromProto(message);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->tables[0].columns[2].unit, table::Unit::kNone);
}

TEST(ReportMessageTest, CollectivesComeOutAsTheyWentIn) {
  report::CollectiveTable collectives = {.left_out_count = 2};
  collectives.communicators = {{.size = 8, .first_rank = 0, .rank_stride = 1}};
  collectives.rows = {
      {.start_ns = -5, .duration_ns = 7, .sequence = 3, .kind = report::CollectiveKind::kBarrier},
      {.start_ns = std::numeric_limits<int64_t>::max(),
       .on_device = true,
       .has_completion = false}};
  collectives.steps = {{.step = -1, .duration_ns = 9, .exposed_ns = 4}};
  const auto report = FromProto(MessageOf(report::ToReport(collectives)));
  ASSERT_THAT(report, IsOk());
  const auto again = report::CollectivesFrom(*report);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->rows, collectives.rows);
  EXPECT_EQ(again->communicators, collectives.communicators);
  EXPECT_EQ(again->steps, collectives.steps);
  EXPECT_EQ(again->left_out_count, 2);

  collectives.rows[0].communicator = 1;
  EXPECT_THAT(report::CollectivesFrom(report::ToReport(collectives)),
              StatusIs(absl::StatusCode::kDataLoss));
}

report::FindingsReport SomeFindings() {
  report::FindingsReport findings = {.verdict = "The GPU waits for the program.",
                                     .bound = report::BoundBy::kLateStart,
                                     .step_count = 5,
                                     .mean_step_ns = 7,
                                     .unrecorded_step_ns = 6,
                                     .unrecorded_idle_ns = 0};
  findings.quality = {.grade = "B",
                      .lost_share = 0.002,
                      .shares = ShareTrust::kMarked,
                      .checks = {{.name = "loss",
                                  .grade = 'B',
                                  .is_share = true,
                                  .value = 0.002,
                                  .bound = 0.001,
                                  .sentence = "0.2 % of the events were lost"},
                                 {.name = "clock", .known = false}},
                      .stored = true};
  findings.findings = {{.rule = "HOST_BOUND",
                        .title = "The GPU waits for launches",
                        .severity = report::Severity::kCritical,
                        .unit = report::FindingUnit::kNs,
                        .value = 0.5,
                        .threshold = 0.1,
                        .saving_ns_per_step = 3,
                        .confidence = report::Confidence::kHigh,
                        .confidence_reason = "5 steps",
                        .measured = "Half of it.",
                        .advice = "Compile the model."},
                       {.rule = "MEM_LEAK", .title = "Memory grows"}};
  findings.findings[0].evidence = {{.kind = report::EvidenceKind::kGap,
                                    .name = std::string("k\xff\0x", 4),
                                    .detail = "while aten::item ran",
                                    .count = 1,
                                    .duration_ns = 2,
                                    .bytes = 3,
                                    .step = 4,
                                    .device = 5,
                                    .start_ns = -6},
                                   {.kind = report::EvidenceKind::kRank, .name = "rank 3"}};
  findings.findings[1].evidence = {{.kind = report::EvidenceKind::kMemory, .name = "aten::mm"}};
  findings.skipped = {{.rule = "COPY_SLOW", .title = "Slow copies", .needs = "copies"}};
  findings.passed = {{.rule = "SYNC_API",
                      .title = "Waits",
                      .unit = report::FindingUnit::kShare,
                      .value = 0.25,
                      .threshold = 0.5}};
  return findings;
}

TEST(ReportMessageTest, FindingsComeOutAsTheyWentIn) {
  const table::Report sent = report::ToReport(SomeFindings());
  const auto report = FromProto(MessageOf(sent));
  ASSERT_THAT(report, IsOk());
  const auto again = report::FindingsFrom(*report);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(report::ToReport(*again), sent);
  EXPECT_EQ(again->bound, report::BoundBy::kLateStart);
  EXPECT_EQ(again->quality.shares, ShareTrust::kMarked);
  EXPECT_EQ(again->quality.checks, SomeFindings().quality.checks);
  EXPECT_EQ(again->findings[0].severity, report::Severity::kCritical);
  EXPECT_EQ(again->findings[0].evidence[1].start_ns, report::Evidence::kNoTime);
  EXPECT_THAT(again->findings[1].evidence, SizeIs(1));
}

TEST(ReportMessageTest, FindingsThatDoNotFitTogetherAreRefused) {
  const auto refused = [](const auto& spoil) {
    report::FindingsReport findings = SomeFindings();
    spoil(findings);
    EXPECT_THAT(report::FindingsFrom(report::ToReport(findings)),
                StatusIs(absl::StatusCode::kDataLoss));
  };
  refused([](report::FindingsReport& findings) { findings.quality.checks[0].grade = 'x'; });
  refused([](report::FindingsReport& findings) { findings.findings[1].rule = "HOST_BOUND"; });
  table::Report report = report::ToReport(SomeFindings());
  report.tables[0] = table::Table{.key = "findings"};
  EXPECT_THAT(report::FindingsFrom(report), StatusIs(absl::StatusCode::kDataLoss));
  report.tables.erase(report.tables.begin());
  EXPECT_THAT(report::FindingsFrom(report), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(report::FindingsFrom(KernelReport()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ReportMessageTest, WordsOfANewerDaemonLeaveTheDefault) {
  table::Report report = report::ToReport(SomeFindings());
  const size_t column = report.tables[1].Find("kind");
  std::get<std::vector<std::string>>(report.tables[1].cells[column])[0] = "constellation";
  const auto findings = report::FindingsFrom(report);
  ASSERT_THAT(findings, IsOk());
  EXPECT_EQ(findings->findings[0].evidence[0].kind, report::EvidenceKind::kOp);
  EXPECT_EQ(findings->findings[0].evidence[1].kind, report::EvidenceKind::kRank);
}

report::TimeReport SomeTime() {
  report::TimeReport time = {.has_device = true, .device = 3};
  time.devices = {{.number = 2, .busy_ns = 10}, {.number = 3, .busy_ns = 300}};
  time.whole = {.kernel_time_ns = 13,
                .busy_ns = 1,
                .idle_ns = 2,
                .compute_ns = 3,
                .communication_ns = 4,
                .exposed_communication_ns = 5,
                .overlapped_communication_ns = 6,
                .copy_ns = 7,
                .exposed_copy_ns = 8,
                .idle_by_cause = {.host_wait_ns = 9, .kernel_wait_ns = 10, .other_ns = 11},
                .host_only_ns = 12};
  time.unrecorded_ns = 14;
  time.overlap = 0.25;
  time.steps = {{.index = 7, .duration_ns = 20, .device = time.whole, .launch_count = 1},
                {.index = 8, .duration_ns = 21, .compile_ns = 4}};
  time.steps[1].host = {.operators_ns = 1,
                        .collectives_ns = 2,
                        .data_loader_ns = 3,
                        .compile_ns = 4,
                        .gpu_wait_ns = 5,
                        .outside_ns = 6,
                        .other_ns = 7};
  time.streams = {{.device = 3, .context = 1, .stream = 21, .activity_count = 4, .idle_ns = 1}};
  time.kernel_types = {{.compute = true, .copy = true, .total_ns = 60, .share = 1}};
  time.launches = {.count = 1, .call_ns = 2, .median_delay_ns = 0.5, .short_kernel_ns = 9};
  time.launching_ops = {{.name = "aten::add_", .host_wait_ns = 9, .launch_bound = true}};
  time.queues = {{.stream = 21, .change_count = 8, .mean = 1.25, .full_ns = 3}};
  time.collectives = {{.kind = report::CollectiveKind::kAllToAll, .on_device = true}};
  time.syncs = {{.call = "cudaStreamSynchronize", .cause = report::SyncCause::kAllocator}};
  time.data_loader = {.count = 1, .total_ns = 40, .max_ns = 30, .in_steps_ns = 20};
  time.compiled_region_count = 2;
  time.graph_break_count = 3;
  time.host_gap_table = {.rows = {{.after = "a", .before = "b", .lines = "x.py:1", .count = 2}},
                         .long_ns = 1,
                         .short_count = 2,
                         .short_ns = 3};
  return time;
}

TEST(ReportMessageTest, TimeComesOutAsItWentIn) {
  const table::Report sent = report::ToReport(SomeTime());
  const auto report = FromProto(MessageOf(sent));
  ASSERT_THAT(report, IsOk());
  const auto again = report::TimeFrom(*report);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(report::ToReport(*again), sent);
  EXPECT_EQ(again->whole.idle_by_cause.kernel_wait_ns, 10);
  EXPECT_EQ(again->steps[0].device.host_only_ns, 12);
  EXPECT_EQ(again->steps[1].host.gpu_wait_ns, 5);
  EXPECT_EQ(again->collectives[0].kind, report::CollectiveKind::kAllToAll);
  EXPECT_EQ(again->syncs[0].cause, report::SyncCause::kAllocator);
}

report::MemoryReport SomeMemory() {
  report::MemoryReport memory;
  memory.devices.resize(2);
  report::DeviceMemoryReport& first = memory.devices[0];
  first.memory = {.device = "cpu:0",
                  .relative = true,
                  .peak_bytes = 1,
                  .peak_time_ns = 2,
                  .start_bytes = 3,
                  .end_bytes = 4,
                  .peak_reserved_bytes = 5,
                  .allocation_count = 6,
                  .free_count = 7,
                  .allocated_total_bytes = 8,
                  .unknown_free_count = 9,
                  .unknown_free_bytes = 10,
                  .repeated_free_count = 11,
                  .peak_by_category = {{.name = "gradient", .bytes = 1, .blocks = 2}},
                  .peak_unknown_bytes = 12,
                  .peak_by_op = {{.name = "aten::mm", .bytes = 3, .blocks = 4}, {.name = "x"}},
                  .peak_older_bytes = 13,
                  .categories = {{.name = "input", .peak_bytes = 1, .byte_seconds = 0.5}}};
  first.samples = {{.time_ns = 1, .allocated_bytes = 2, .layer_bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9}},
                   {.time_ns = 2, .reserved_bytes = 7}};
  first.peak_older_by_category = {{.name = "parameter", .bytes = 9}};
  first.peak_by_module = {{.name = "(no module)", .bytes = 8}};
  first.peak_by_lifetime = {{.name = "freed", .bytes = 7}};
  first.peak_blocks = {{.bytes = 64,
                        .allocated_ns = 1,
                        .step = 3,
                        .category = "gradient",
                        .op = "aten::mm",
                        .module = "layer",
                        .stack = {"3:a", "", std::string("k\xff\0x", 4)}},
                       {.bytes = 32}};
  first.capacity_bytes = 1 << 30;
  first.steps = {{.step = 3, .start_bytes = 1, .kept_bytes = -1}};
  first.growth = {.step_count = 4,
                  .rising_count = 3,
                  .bytes_per_step = -2,
                  .suspects_by_op = {{.name = "aten::add", .bytes = 6}},
                  .suspects_by_source = {{.name = "train.py(7): step", .bytes = 6}},
                  .unknown_because = "nobody looked"};
  memory.devices[1].memory.device = "cuda:1";
  memory.devices[1].samples = {{.time_ns = 5}};
  memory.out_of_memory = {{.asked = {.time_ns = 1, .device = "cuda:1", .bytes = 2},
                           .step = 3,
                           .capacity_bytes = 4,
                           .op = "aten::empty"}};
  return memory;
}

TEST(ReportMessageTest, MemoryComesOutAsItWentIn) {
  const table::Report sent = report::ToReport(SomeMemory());
  const auto report = FromProto(MessageOf(sent));
  ASSERT_THAT(report, IsOk());
  const auto again = report::MemoryFrom(*report);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(report::ToReport(*again), sent);
  const report::DeviceMemoryReport& first = again->devices[0];
  EXPECT_EQ(first.samples[0].layer_bytes, SomeMemory().devices[0].samples[0].layer_bytes);
  EXPECT_EQ(first.peak_blocks[0].stack, SomeMemory().devices[0].peak_blocks[0].stack);
  EXPECT_THAT(first.peak_blocks[1].stack, IsEmpty());
  EXPECT_EQ(first.memory.peak_by_op, SomeMemory().devices[0].memory.peak_by_op);
  EXPECT_EQ(first.growth.suspects_by_op, SomeMemory().devices[0].growth.suspects_by_op);
  EXPECT_EQ(first.growth.suspects_by_source, SomeMemory().devices[0].growth.suspects_by_source);
  EXPECT_THAT(again->devices[1].samples, SizeIs(1));
  EXPECT_EQ(again->out_of_memory[0].asked.bytes, 2);
}

TEST(ReportMessageTest, MemoryThatDoesNotFitTogetherIsRefused) {
  const auto refused = [](std::string_view table, std::string_view column, const char* text) {
    table::Report report = report::ToReport(SomeMemory());
    for (table::Table& each : report.tables) {
      if (each.key != table) continue;
      std::get<std::vector<std::string>>(each.cells[each.Find(column)])[0] = text;
    }
    EXPECT_THAT(report::MemoryFrom(report), StatusIs(absl::StatusCode::kDataLoss))
        << column << text;
  };
  refused("devices", "device", "cuda:1");
  refused("samples", "device", "cuda:2");
  refused("shares", "list", "peak_by_colour");
  for (const char* ranges : {"3", "x:abc", "4:abc", ":abc", "99999999999:a"}) {
    refused("peak_blocks", "ranges", ranges);
  }
  EXPECT_THAT(report::MemoryFrom(KernelReport()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ReportMessageTest, SortedStepsKeepTheirTimeOnTheHost) {
  table::Report report = report::ToReport(SomeTime());
  ASSERT_THAT(table::Apply({.sort = "duration", .limit = 1}, report.tables[0]), IsOk());
  const auto time = report::TimeFrom(report);
  ASSERT_THAT(time, IsOk());
  ASSERT_THAT(time->steps, SizeIs(1));
  EXPECT_EQ(time->steps[0].index, 8);
  EXPECT_EQ(time->steps[0].host.gpu_wait_ns, 5);
}

TEST(ReportMessageTest, TimeThatDoesNotFitTogetherIsRefused) {
  report::TimeReport other = SomeTime();
  other.steps[1].index = 9;
  table::Report report = report::ToReport(SomeTime());
  report.tables[1] = report::ToReport(other).tables[1];
  EXPECT_THAT(report::TimeFrom(report), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(report::TimeFrom(KernelReport()), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::cli
