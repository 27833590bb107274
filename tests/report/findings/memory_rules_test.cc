// What fills a device, as a finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using MemoryRulesTest = FindingsFixture;

TEST_F(MemoryRulesTest, APeakNearTheDevicesMemoryNamesAlsoWhatIsOlderThanTheWindow) {
  Healthy();
  reader_.Block(0x9000, int64_t{50} << 30, {.category = 1, .device_type = 1});
  reader_.Allocate(main_, 1, 0x1000, int64_t{5} << 30,
                   {.total_allocated_bytes = int64_t{65} << 30,
                    .total_reserved_bytes = int64_t{76} << 30,
                    .device_type = 1});
  const Finding finding = Find("MEM_NEAR_LIMIT");
  EXPECT_THAT(finding.measured, HasSubstr("The largest part: parameter, 50 GiB."));
  std::vector<std::pair<std::string, int64_t>> parts;
  for (const Evidence& part : finding.evidence) parts.emplace_back(part.name, part.bytes >> 30);
  EXPECT_THAT(parts, ElementsAre(Pair("parameter", 50), Pair("reserved without use", 11),
                                 Pair("allocated before the window", 10), Pair("aten::mm", 5)));
}

}  // namespace
}  // namespace profd::report
