// A report goes through gRPC's messages and comes out as it went in; what a hostile daemon sends is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "cli/client/from_proto.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/reports.h"
#include "daemon/rpc/convert/report.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace profd::cli
