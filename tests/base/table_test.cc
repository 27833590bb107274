#include "daemon/base/table/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "daemon/base/table/description.h"
#include "daemon/base/table/json.h"
#include "daemon/base/table/nested.h"
#include "daemon/base/table/object.h"
#include "tests/fakes/status_matchers.h"

namespace profd::table {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Ship {
  std::string name;
  int64_t length_ns = 0;
  double share = -1;
  bool sails = false;
  Sizes sizes{};
  uint32_t masts = 0;

  friend bool operator==(const Ship&, const Ship&) = default;
};

const Description<Ship>& ShipColumns() {
  static const Description<Ship> columns = {
      {&Ship::name, {.key = "name", .title = "Ship", .doc = "Its name"}},
      {&Ship::length_ns, {.key = "length_ns", .title = "Length", .doc = "How long"}},
      {&Ship::share, {.key = "share", .title = "%", .doc = "Of all", .nullable = true}},
      {&Ship::sails, {.key = "sails", .title = "Sails", .doc = "Whether it has any"}},
      {&Ship::sizes, {.key = "sizes", .title = "Sizes", .doc = "By side"}},
      {&Ship::masts, {.key = "masts", .title = "Masts", .doc = "How many"}},
      {[](const Ship& ship) { return static_cast<int64_t>(ship.name.size()); },
       {.key = "letters", .title = "Letters", .doc = "Of its name"}}};
  return columns;
}

std::vector<Ship> Ships() {
  return {
      {.name = "b", .length_ns = 2, .share = 0.5, .sails = true, .sizes = {1, 2, 3}, .masts = 3},
      {.name = "=a", .length_ns = 9, .masts = 1},
      {.name = "c", .length_ns = 2}};
}

Table ShipTable() { return ShipColumns().ToTable("ships", Ships()); }

std::vector<std::string> Names(const Table& table) {
  return std::get<std::vector<std::string>>(table.cells[table.Find("name")]);
}

TEST(DescriptionTest, RowsComeBackAsTheyWere) {
  const Table table = ShipTable();
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.row_count, 3);
  EXPECT_EQ(table.columns[0].type, Type::kText);
  EXPECT_EQ(table.columns[5].type, Type::kInt);
  EXPECT_EQ(std::get<std::vector<int64_t>>(table.cells[6]), std::vector<int64_t>({1, 2, 1}));
  const auto rows = ShipColumns().FromTable(table);
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ(*rows, Ships());
}

TEST(DescriptionTest, AColumnThatIsMissingKeepsItsDefaultAndOneOfAnotherTypeIsRefused) {
  Table table = ShipTable();
  table.columns[1].key = "other";
  const auto rows = ShipColumns().FromTable(table);
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ((*rows)[0].length_ns, 0);
  EXPECT_EQ((*rows)[0].name, "b");
  table.columns[2].type = Type::kInt;
  EXPECT_THAT(ShipColumns().FromTable(table), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ApplyTest, SortsNumbersDownNamesUpAndKeepsTheOrderOfEquals) {
  Table table = ShipTable();
  ASSERT_THAT(Apply({.sort = "length"}, table), IsOk());
  EXPECT_THAT(Names(table), ElementsAre("=a", "b", "c"));
  ASSERT_THAT(Apply({.sort = "length_ns"}, table), IsOk());
  EXPECT_THAT(Names(table), ElementsAre("=a", "b", "c"));
  ASSERT_THAT(Apply({.sort = "name", .limit = 2}, table), IsOk());
  EXPECT_THAT(Names(table), ElementsAre("=a", "b"));
  EXPECT_EQ(table.row_count, 3);
  EXPECT_EQ(table.size(), 2U);
}

TEST(ApplyTest, AColumnThatDoesNotExistIsRefusedWithThoseThatDo) {
  Table table = ShipTable();
  EXPECT_THAT(Apply({.sort = "colour"}, table),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name, length, share")));
  EXPECT_THAT(Apply({.limit = -1}, table), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(table.size(), 3U);
}

TEST(TableJsonTest, WhatIsNotKnownIsNull) {
  JsonWriter json;
  WriteRows(ShipTable(), json);
  EXPECT_THAT(json.TakeLine(), HasSubstr(R"({"name":"=a","length_ns":9,"share":null,"sails":false,)"
                                         R"("sizes":[0,0,0],"masts":1,"letters":2})"));
}

struct Port {
  std::string name;
  std::vector<Ship> ships;
};

TEST(NestedTableTest, RowsComeBackIntoTheirOuterRow) {
  const std::vector<Port> ports = {{"x", Ships()}, {"y", {}}, {"z", Ships()}};
  NestedTable<Ship> nested("ships", {PlainColumn("port", "Port", "Its port")}, ShipColumns());
  for (const Port& port : ports) nested.Add({port.name}, port.ships);
  const Report report = {.tables = {std::move(nested).Take()}};
  EXPECT_EQ(report.tables[0].row_count, 6);
  EXPECT_EQ(report.tables[0].columns[0].key, "port");
  std::vector<Port> again = {{.name = "x"}, {.name = "z"}};
  const auto place = [&](std::span<const std::string_view> in, Ship ship) {
    const auto port = std::ranges::find(again, in[0], &Port::name);
    if (port == again.end()) return false;
    port->ships.push_back(std::move(ship));
    return true;
  };
  ASSERT_THAT(ReadNested(report, "ships", {"port"}, ShipColumns(), place), IsOk());
  EXPECT_EQ(again[0].ships, Ships());
  EXPECT_EQ(again[1].ships, Ships());
  again.pop_back();
  EXPECT_THAT(ReadNested(report, "ships", {"port"}, ShipColumns(), place),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadNested(report, "ships", {"sea"}, ShipColumns(), place),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadNested(report, "boats", {"port"}, ShipColumns(), place),
              StatusIs(absl::StatusCode::kDataLoss));
}

const Description<int64_t>& LevelColumns() {
  static const Description<int64_t> columns = {
      {[](const int64_t& level) { return level; }, {.key = "level"}},
      {[](const int64_t& level) { return level; }, {.key = "height", .nullable = true}}};
  return columns;
}

TEST(TableJsonTest, NegativeNumbersAreKnownWhereTheyMayBe) {
  JsonWriter json;
  json.BeginArray();
  WriteArrays(LevelColumns().WithUnknown("level").ToTable(
                  "", std::vector<int64_t>{-1, 2, Column::kUnknown}),
              json);
  json.EndArray();
  EXPECT_EQ(json.TakeLine(), "[[-1,null],[2,2],[null,null]]\n");
}

TEST(TableJsonTest, ARealNumberThatMayBeNegativeIsUnknownAsNan) {
  static const Description<double> columns = {
      {[](const double& score) { return score; },
       {.key = "score", .nullable = true, .may_be_negative = true}}};
  Table table = columns.ToTable(
      "", std::vector<double>{-1.5, std::numeric_limits<double>::quiet_NaN(), 2.5, 0.5});
  EXPECT_EQ(ToCsv(table), "score\n-1.5\n\n2.5\n0.5\n");
  ASSERT_THAT(Apply({.sort = "score"}, table), IsOk());
  EXPECT_EQ(ToCsv(table), "score\n2.5\n0.5\n-1.5\n\n") << "what is not known is last";
}

TEST(TableJsonTest, ManyRowsAreAllWrittenAsArrays) {
  using Levels = std::vector<int64_t>;
  const ObjectDescription<Levels> object(
      {}, {ArraysOf<Levels>(
              "levels", "Levels", &LevelColumns,
              [](const Levels& levels) -> const auto& { return levels; })});
  JsonWriter json;
  object.Write(Levels(3000, 7), json);
  const std::string text = json.TakeLine();
  EXPECT_EQ(std::ranges::count(text, '7'), 6000);
  EXPECT_TRUE(text.starts_with(R"({"levels":[[7,7],[7,7],)")) << text.substr(0, 40);
  EXPECT_TRUE(text.ends_with("[7,7]]}\n"));
}

struct Harbor {
  Ship ship;
  std::string pilot;
  bool is_free = false;
};

const ObjectDescription<Ship>& NamedObject() {
  static const ObjectDescription<Ship> object({{&Ship::name, {.key = "name", .doc = "Its name"}}});
  return object;
}

// Columns and members in any order; some in some rows only.
const ObjectDescription<Harbor>& HarborObject() {
  static const ObjectDescription<Harbor> object(
      {},
      {TextOrNull<Harbor>(
           "pilot", "The pilot; null: none",
           [](const Harbor& row) -> const auto& { return row.pilot; }),
       Optional<Harbor>(
           [](const Harbor& row) { return !row.is_free; },
           FieldsOf<Harbor>(
               &NamedObject, [](const Harbor& row) -> const auto& { return row.ship; })),
       ObjectOrNull<Harbor>("ship", "The ship; null: none", &NamedObject,
                            [](const Harbor& row) { return row.is_free ? nullptr : &row.ship; }),
       ColumnsOf<Harbor>({{&Harbor::is_free, {.key = "free", .doc = "Whether it is free"}}})});
  return object;
}

TEST(TableJsonTest, AnObjectMayHaveTheFieldsOfAnotherOne) {
  JsonWriter json;
  json.BeginArray();
  HarborObject().Write({.ship = {.name = "a"}, .pilot = "b"}, json);
  HarborObject().Write({.is_free = true}, json);
  json.EndArray();
  EXPECT_EQ(json.TakeLine(), R"([{"pilot":"b","name":"a","ship":{"name":"a"},"free":false},)"
                             R"({"pilot":null,"ship":null,"free":true}])"
                             "\n");
  json.BeginObject();
  HarborObject().WriteSchema(json);
  json.EndObject();
  const std::string schema = json.TakeLine();
  EXPECT_THAT(schema, HasSubstr(R"("pilot":{"description":"The pilot; null: none",)"
                                R"("type":["string","null"]},"name":{"type":"string")"));
  EXPECT_THAT(schema, HasSubstr(R"("type":["object","null"],"properties":{"name")"));
  EXPECT_THAT(schema, HasSubstr(R"("required":["pilot","ship","free"])"));
}

TEST(TableCsvTest, CellsAreSafeForASpreadsheet) {
  EXPECT_EQ(ToCsv(ShipTable()),
            "name,length_ns,share,sails,sizes,masts,letters\n"
            "b,2,0.5,true,1x2x3,3,1\n"
            "'=a,9,,false,0x0x0,1,2\n"
            "c,2,,false,0x0x0,0,1\n");
}

TEST(IsUnsetTest, KnowsZeroEmptyAndNotKnown) {
  const std::vector<Ship> plain = {{.name = "a"}, {.name = "b"}};
  const Table table = ShipColumns().ToTable("ships", plain);
  EXPECT_FALSE(IsUnset(table.columns[0], table.cells[0]));
  for (size_t i = 1; i <= 5; ++i) EXPECT_TRUE(IsUnset(table.columns[i], table.cells[i])) << i;
}

TEST(CheckTest, EveryPromiseOfAReportIsChecked) {
  const auto spoilt = [](const auto& spoil) {
    Report report = {.name = "fleet", .tables = {ShipTable()}};
    EXPECT_THAT(Check(report), IsOk());
    spoil(report);
    return Check(report);
  };
  EXPECT_FALSE(spoilt([](Report& report) { report.name = "a b"; }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.tables[0].key = ""; }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.tables[0].cells.pop_back(); }).ok());
  EXPECT_FALSE(spoilt([](Report& report) {
                 std::get<std::vector<int64_t>>(report.tables[0].cells[1]).pop_back();
               }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.tables[0].columns[1].type = Type::kReal; }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.tables[0].columns[1].key = "name"; }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.tables.push_back(report.tables[0]); }).ok());
  EXPECT_FALSE(spoilt([](Report& report) { report.totals = ShipTable(); }).ok());
}

}  // namespace
}  // namespace profd::table
