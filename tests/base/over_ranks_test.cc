#include "daemon/base/table/over_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "daemon/base/table/description.h"

namespace profd::table {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Kernel {
  std::string name;
  int64_t device = 0;
  int64_t total_ns = 0;
  int64_t shortest_ns = 0;
  int64_t longest_ns = 0;
  double occupancy = -1;
  std::string op;
};

const Description<Kernel>& KernelColumns() {
  static const Description<Kernel> columns = {
      {&Kernel::name, {.key = "name", .title = "Kernel", .over_ranks = OverRanks::kKey}},
      {&Kernel::device, {.key = "device", .title = "GPU", .over_ranks = OverRanks::kKey}},
      {&Kernel::total_ns,
       {.key = "total_ns", .title = "Total", .unit = Unit::kNs, .over_ranks = OverRanks::kSum}},
      {&Kernel::shortest_ns,
       {.key = "shortest_ns", .title = "Min", .unit = Unit::kNs, .over_ranks = OverRanks::kMin}},
      {&Kernel::longest_ns,
       {.key = "longest_ns", .title = "Max", .unit = Unit::kNs, .over_ranks = OverRanks::kMax}},
      {&Kernel::occupancy, {.key = "occupancy", .title = "Occupancy", .nullable = true}},
      {&Kernel::op, {.key = "op", .title = "Op"}}};
  return columns;
}

constexpr std::array<std::string_view, 1> kOwn = {"device"};

// The tables of ranks 0, 1, ...
class Ranks {
 public:
  explicit Ranks(const std::vector<std::vector<Kernel>>& rows) {
    tables_.reserve(rows.size());
    for (const std::vector<Kernel>& of_rank : rows) {
      tables_.push_back(KernelColumns().ToTable("rows", of_rank));
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
      ranks_.push_back({.rank = std::to_string(i), .table = &tables_[i]});
    }
  }
  Table Merged(std::string_view figure = "") const { return MergeRanks(ranks_, figure, kOwn); }
  const std::vector<RankTable>& ranks() const { return ranks_; }
  Table& table(size_t rank) { return tables_[rank]; }

 private:
  std::vector<Table> tables_;
  std::vector<RankTable> ranks_;
};

template <typename Value>
const std::vector<Value>& CellsOf(const Table& table, std::string_view key) {
  return std::get<std::vector<Value>>(table.cells[table.Find(key)]);
}
const std::vector<int64_t>& Ints(const Table& table, std::string_view key) {
  return CellsOf<int64_t>(table, key);
}
const std::vector<double>& Reals(const Table& table, std::string_view key) {
  return CellsOf<double>(table, key);
}
const std::vector<std::string>& Texts(const Table& table, std::string_view key) {
  return CellsOf<std::string>(table, key);
}

TEST(OverRanksTest, RowsOfOneKeyAreComparedByTheFigure) {
  const Ranks ranks(
      {{{.name = "gemm", .total_ns = 10, .shortest_ns = 2, .longest_ns = 8, .op = "a"}},
       {{.name = "gemm", .total_ns = 40, .shortest_ns = 3, .longest_ns = 9, .op = "b"}},
       {{.name = "gemm", .total_ns = 20, .shortest_ns = 4, .longest_ns = 7, .op = "c"}}});
  const Table merged = ranks.Merged();
  EXPECT_EQ(merged.row_count, 1);
  EXPECT_THAT(Ints(merged, "min_over_ranks"), ElementsAre(10));
  EXPECT_THAT(Ints(merged, "median_over_ranks"), ElementsAre(20));
  EXPECT_THAT(Ints(merged, "max_over_ranks"), ElementsAre(40));
  EXPECT_THAT(Texts(merged, "max_rank"), ElementsAre("1"));
  EXPECT_THAT(Ints(merged, "rank_count"), ElementsAre(3));
  EXPECT_THAT(Ints(merged, "total_ns"), ElementsAre(70)) << "a sum";
  EXPECT_THAT(Ints(merged, "shortest_ns"), ElementsAre(2));
  EXPECT_THAT(Ints(merged, "longest_ns"), ElementsAre(9));
  EXPECT_THAT(Texts(merged, "op"), ElementsAre("b")) << "that of the rank with the highest figure";
  EXPECT_EQ(merged.columns[merged.Find("max_over_ranks")].title, "Total max");
}

TEST(OverRanksTest, AnotherFigureIsNamedWithOrWithoutItsUnit) {
  const Ranks ranks({{{.name = "gemm", .total_ns = 10, .longest_ns = 9}},
                     {{.name = "gemm", .total_ns = 40, .longest_ns = 5}}});
  for (const std::string_view figure : {"longest", "longest_ns"}) {
    const Table merged = ranks.Merged(figure);
    EXPECT_THAT(Texts(merged, "max_rank"), ElementsAre("0")) << figure;
    EXPECT_THAT(Ints(merged, "max_over_ranks"), ElementsAre(9)) << figure;
  }
  // Ranks cannot be compared by a text.
  EXPECT_THAT(Texts(ranks.Merged("name"), "max_rank"), ElementsAre("1"));
}

TEST(OverRanksTest, RanksWithoutTheRowCountAsNoneOfASumAndNotOfOtherFigures) {
  const Ranks ranks({{{.name = "gemm", .total_ns = 10, .occupancy = 0.5}}, {}, {}});
  const Table by_sum = ranks.Merged();
  EXPECT_THAT(Ints(by_sum, "min_over_ranks"), ElementsAre(0));
  EXPECT_THAT(Ints(by_sum, "median_over_ranks"), ElementsAre(0));
  EXPECT_THAT(Ints(by_sum, "max_over_ranks"), ElementsAre(10));
  EXPECT_THAT(Ints(by_sum, "rank_count"), ElementsAre(1));
  const Table by_occupancy = ranks.Merged("occupancy");
  EXPECT_THAT(Reals(by_occupancy, "min_over_ranks"), ElementsAre(0.5));
  EXPECT_THAT(Reals(by_occupancy, "median_over_ranks"), ElementsAre(0.5));
}

TEST(OverRanksTest, WhatARankDoesNotKnowDoesNotCount) {
  const Ranks ranks({{{.name = "gemm", .occupancy = 0.5}, {.name = "copy"}},
                     {{.name = "gemm", .occupancy = -1}, {.name = "copy"}}});
  const Table merged = ranks.Merged();
  EXPECT_THAT(Reals(merged, "occupancy"), ElementsAre(0.5, -1));
  const Table by_occupancy = ranks.Merged("occupancy");
  EXPECT_THAT(Texts(by_occupancy, "max_rank"), ElementsAre("0", "0"));
  const size_t max = by_occupancy.Find("max_over_ranks");
  EXPECT_FALSE(IsUnknown(by_occupancy.columns[max], by_occupancy.cells[max], 0));
  EXPECT_TRUE(IsUnknown(by_occupancy.columns[max], by_occupancy.cells[max], 1));
}

TEST(OverRanksTest, RowsThatRanksHaveInFallingOrderAreByTheMedian) {
  const Ranks ranks({{{.name = "a", .total_ns = 9}, {.name = "b", .total_ns = 8}},
                     {{.name = "b", .total_ns = 30}, {.name = "a", .total_ns = 1}}});
  EXPECT_THAT(Texts(ranks.Merged(), "name"), ElementsAre("b", "a"));
}

TEST(OverRanksTest, ARowThatOneRankHasStaysBehindItsOwnNeighbour) {
  const Ranks ranks({{{.name = "1"}, {.name = "2", .total_ns = 5}, {.name = "4"}},
                     {{.name = "0"}, {.name = "2"}, {.name = "3"}, {.name = "4"}, {.name = "5"}}});
  EXPECT_THAT(Texts(ranks.Merged(), "name"), ElementsAre("0", "1", "2", "3", "4", "5"));
}

TEST(OverRanksTest, RowsOfOneKeyInOneRankStayApart) {
  const Ranks ranks({{{.name = "a", .total_ns = 9}, {.name = "a", .total_ns = 8}},
                     {{.name = "a", .total_ns = 7}}});
  const Table merged = ranks.Merged();
  EXPECT_THAT(Ints(merged, "max_over_ranks"), ElementsAre(9, 8));
  EXPECT_THAT(Ints(merged, "rank_count"), ElementsAre(2, 1));
}

TEST(OverRanksTest, TheGpuOfEachRankIsOneRow) {
  const Ranks one_each(
      {{{.name = "a", .device = 0, .total_ns = 1}}, {{.name = "a", .device = 1, .total_ns = 2}}});
  const Table merged = one_each.Merged();
  EXPECT_THAT(Ints(merged, "rank_count"), ElementsAre(2));
  const size_t device = merged.Find("device");
  EXPECT_TRUE(IsUnknown(merged.columns[device], merged.cells[device], 0)) << "the rank says it";
  // Ranks with the same number, and with several, are compared GPU by GPU.
  const Ranks same({{{.name = "a", .device = 3}}, {{.name = "a", .device = 3}}});
  EXPECT_THAT(Ints(same.Merged(), "device"), ElementsAre(3));
  const Ranks several(
      {{{.name = "a", .device = 0}, {.name = "a", .device = 1}}, {{.name = "a", .device = 1}}});
  EXPECT_THAT(Ints(several.Merged(), "device"), ElementsAre(0, 1));
}

TEST(OverRanksTest, TheNumbersOfNamedDevicesGoKindByKind) {
  struct Device {
    std::string device;
    int64_t peak_bytes = 0;
  };
  const Description<Device> columns = {
      {&Device::device, {.key = "device", .title = "Device", .over_ranks = OverRanks::kKey}},
      {&Device::peak_bytes, {.key = "peak_bytes", .title = "Peak", .unit = Unit::kBytes}}};
  const auto merged = [&](const std::vector<Device>& a, const std::vector<Device>& b) {
    const Table first = columns.ToTable("devices", a);
    const Table second = columns.ToTable("devices", b);
    const std::array<RankTable, 2> ranks = {{{"0", &first}, {"1", &second}}};
    return Texts(MergeRanks(ranks, "", kOwn), "device");
  };
  EXPECT_THAT(merged({{"cuda:0"}, {"cpu"}}, {{"cuda:7"}, {"cpu"}}), ElementsAre("cuda", "cpu"));
  EXPECT_THAT(merged({{"cuda:0"}, {"cpu"}}, {{"cuda:0"}, {"cpu"}}), ElementsAre("cuda:0", "cpu"));
  EXPECT_THAT(merged({{"cuda:0"}, {"cuda:1"}}, {{"cuda:1"}}), ElementsAre("cuda:0", "cuda:1"));
}

TEST(OverRanksTest, ColumnsThatARankLacksAreLeftOut) {
  Ranks ranks({{{.name = "a", .total_ns = 1, .op = "x"}}, {{.name = "a", .total_ns = 2}}});
  // An older daemon's.
  ranks.table(1).columns.pop_back();
  ranks.table(1).cells.pop_back();
  const Table merged = ranks.Merged();
  EXPECT_EQ(merged.Find("op"), Table::npos);
  EXPECT_THAT(Ints(merged, "total_ns"), ElementsAre(3));
  EXPECT_EQ(OfEachRank(ranks.ranks()).Find("op"), Table::npos);
}

TEST(OverRanksTest, SumsThatAreTooLargeStayAtTheLimit) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Ranks ranks({{{.name = "a", .total_ns = kMost}}, {{.name = "a", .total_ns = kMost}}});
  EXPECT_THAT(Ints(ranks.Merged(), "total_ns"), ElementsAre(kMost));
}

TEST(OverRanksTest, TheRowsOfEachRankNameIt) {
  const Ranks ranks({{{.name = "a"}, {.name = "b"}}, {}, {{.name = "a"}}});
  const Table rows = OfEachRank(ranks.ranks());
  EXPECT_THAT(Texts(rows, "rank"), ElementsAre("0", "0", "2"));
  EXPECT_THAT(Texts(rows, "name"), ElementsAre("a", "b", "a"));
  EXPECT_EQ(rows.row_count, 3);
}

TEST(OverRanksTest, ASchemaHasTheColumnsOfTheResult) {
  const Ranks ranks({{{.name = "a", .device = 0}}, {{.name = "a", .device = 1}}});
  const Table merged = ranks.Merged();
  const std::vector<Column> columns = KernelColumns().columns();
  const std::vector<Column> described =
      MergedColumns(columns, FigureOf(columns, ""), Type::kReal, kOwn);
  ASSERT_EQ(described.size(), merged.columns.size());
  for (size_t i = 0; i < described.size(); ++i) {
    EXPECT_EQ(described[i].key, merged.columns[i].key);
    EXPECT_EQ(described[i].nullable, merged.columns[i].nullable) << described[i].key;
  }
}

TEST(OverRanksTest, RanksWithoutRowsHaveNone) {
  const Ranks ranks(std::vector<std::vector<Kernel>>{{}, {}});
  const Table merged = ranks.Merged();
  EXPECT_EQ(merged.row_count, 0);
  EXPECT_THAT(Texts(merged, "max_rank"), IsEmpty());
}

}  // namespace
}  // namespace profd::table
