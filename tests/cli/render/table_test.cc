// Tables with several columns of names.
#include "cli/base/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/base/style.h"
#include "tests/cli/render/squeezed.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TableTest, SeveralColumnsOfNamesAreShortened) {
  Table table({{.title = "Name", .right = false, .flexible = true},
               {.title = "Class", .right = false, .flexible = true, .max_width = 24},
               {.title = "Rare", .drop_order = 1},
               {.title = "Always"}});
  const std::string first = std::string(600, 'C') + "1";
  const std::string second = std::string(600, 'C') + "2";
  table.AddRow({std::string(200, 'n'), first, "1", "3"});
  table.AddRow({"x", second, "10", "30"});
  const std::vector<std::string> lines = Squeezed(table.Render(Style{}));
  for (const std::string& line : lines) {
    EXPECT_LE(DisplayWidth(line), 2 * Table::kLongestName + 30);
  }
  EXPECT_THAT(lines[2], HasSubstr("CC1 "));
  EXPECT_THAT(lines[3], HasSubstr("CC2 "));
  for (int width = 60; width < 240; width += 7) {
    const std::string text =
        table.Render(Style{.is_terminal = true, .width = width, .colour = false});
    EXPECT_THAT(text, HasSubstr("CC1 "));
    EXPECT_THAT(text, HasSubstr("Rare"));
    EXPECT_THAT(text, Not(HasSubstr(std::string(24, 'C'))));
    for (const std::string& line : Squeezed(text)) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width));
    }
  }
}

}  // namespace
}  // namespace profd::cli
