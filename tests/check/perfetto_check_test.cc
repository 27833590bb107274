// The rules for Perfetto's protobuf, by packets made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/check/check_rules.h"
#include "tests/check/checked.h"

namespace profd::check {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Number(uint32_t field, uint64_t value) {
  return Varint(uint64_t{field} << 3) + Varint(value);
}
std::string Fixed64(uint32_t field, uint64_t value) {
  std::string bytes = Varint(uint64_t{field} << 3 | 1);
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}
std::string Bytes(uint32_t field, std::string_view bytes) {
  return StrCat(Varint(uint64_t{field} << 3 | 2), Varint(bytes.size()), bytes);
}
std::string Packet(std::string_view fields, uint64_t sequence = 1) {
  return Bytes(1, StrCat(fields, Number(10, sequence)));
}

// The first of a sequence: it interns the name 1, describes the track 5 and the counter 6.
std::string Start() {
  const std::string name = Bytes(12, Bytes(2, Number(1, 1) + Bytes(2, "mm")));
  return Packet(Number(13, 1) + name) + Packet(Bytes(60, Number(1, 5) + Bytes(2, "stream 7"))) +
         Packet(Bytes(60, Number(1, 6) + Number(5, 5) + Bytes(8, "")));
}
std::string Event(uint64_t ts, uint64_t type, std::string_view more = "", uint64_t track = 5) {
  return Packet(Number(8, ts) + Number(13, 2) +
                Bytes(11, StrCat(Number(9, type), Number(11, track), more)));
}
std::string Begin(uint64_t ts, std::string_view more = "") {
  return Event(ts, 1, Number(10, 1) + std::string(more));
}
std::string End(uint64_t ts) { return Event(ts, 2); }

TEST(PerfettoCheckTest, AGoodTraceBreaksNoRule) {
  const CheckReport report =
      Checked(Start() + Begin(1, Fixed64(47, 9)) + Begin(2) + End(3) + End(4) + Event(4, 4, "", 6) +
              Begin(5, Fixed64(48, 9)) + End(5) + Begin(6, Fixed64(47, 9)) +
              Event(6, 3, Bytes(23, "mark")) + End(7) + Begin(8, Fixed64(48, 9)) + End(9));
  EXPECT_THAT(Broken(report, /*with_notes=*/true), IsEmpty());
  EXPECT_EQ(report.kind, TraceKind::kPerfetto);
  EXPECT_EQ(report.event_count, 12);
}

TEST(PerfettoCheckTest, EachRuleIsBrokenByItsTraceAndNoOther) {
  const auto breaks = [](Rule rule, const std::string& trace, int64_t count = 1) {
    EXPECT_THAT(Broken(Checked(trace)),
                UnorderedElementsAre(Pair(std::string(RuleOf(rule).id), count)))
        << RuleOf(rule).id;
  };
  const std::string good = Start() + Begin(1) + End(2);
  breaks(Rule::kWireFormat, good.substr(0, good.size() - 1));
  breaks(Rule::kWireFormat, good + "x");
  breaks(Rule::kWireFormat, good + Packet(Bytes(60, "\xff")));
  breaks(Rule::kPacketSequence, good + Packet(Number(8, 3) + Bytes(11, Number(9, 3)), 0));
  breaks(Rule::kPacketState,
         Start() + Packet(Number(8, 3) + Number(13, 2) + Bytes(11, Number(9, 3)), 2));
  breaks(Rule::kInterning, good + Event(3, 1, Number(10, 2)) + End(4));
  breaks(Rule::kInterning, good + Event(3, 3, Number(3, 2)));
  breaks(Rule::kInterning, good + Event(3, 3, Bytes(4, Number(1, 7))));
  breaks(Rule::kInterning, good + Event(3, 1) + End(4));
  breaks(Rule::kInterning, good + Packet(Bytes(12, Bytes(2, Number(1, 1) + Bytes(2, "other")))));
  breaks(Rule::kTrack, good + Event(3, 3, "", 77));
  breaks(Rule::kTrack, good + Event(3, 4));
  breaks(Rule::kTrack, good + Event(3, 3, "", 6));
  breaks(Rule::kTrack, good + Packet(Bytes(60, Number(1, 8) + Number(5, 99))));
  breaks(Rule::kSliceOrder, good + Begin(1) + End(3));
  breaks(Rule::kSliceBalance, good + End(3));
  breaks(Rule::kSliceBalance, good + Begin(3) + Begin(4), 2);
  breaks(Rule::kPacketFlow, good + Begin(3, Fixed64(47, 9)) + End(4));
  breaks(Rule::kPacketFlow, good + Begin(3, Fixed64(48, 9)) + End(4));
  breaks(Rule::kPacketTime, good + Packet(Number(13, 2) + Bytes(11, Number(9, 3) + Number(11, 5))));
}

TEST(PerfettoCheckTest, AnArrowMayNotGoBackInTime) {
  const std::string other_track = Packet(Bytes(60, Number(1, 7) + Bytes(2, "other")));
  const auto on_other = [](uint64_t ts, const std::string& more) {
    return Event(ts, 1, Number(10, 1) + more, 7) + Event(ts + 1, 2, "", 7);
  };
  EXPECT_THAT(Broken(Checked(Start() + other_track + Begin(10, Fixed64(47, 9)) + End(11) +
                             on_other(12, Fixed64(48, 9)))),
              IsEmpty());
  // An end, and a begin that goes nowhere.
  EXPECT_THAT(Broken(Checked(Start() + other_track + Begin(10, Fixed64(47, 9)) + End(11) +
                             on_other(2, Fixed64(48, 9)))),
              UnorderedElementsAre(Pair("packet-flow", 2)));
}

TEST(PerfettoCheckTest, IncrementalClocksAreAddedUp) {
  const std::string clock =
      Packet(Bytes(6, Bytes(1, Number(1, 64) + Number(2, 1000) + Number(3, 1))));
  const auto event = [](uint64_t delta, uint64_t type) {
    return Packet(Number(8, delta) + Number(58, 64) + Number(13, 2) +
                  Bytes(11, Number(9, type) + Number(11, 5) + (type == 1 ? Number(10, 1) : "")));
  };
  EXPECT_THAT(
      Broken(Checked(Start() + clock + event(50, 1) + event(3, 2) + event(2, 1) + event(0, 2))),
      IsEmpty());
}

TEST(PerfettoCheckTest, TimesMayBeAnyNumbers) {
  EXPECT_THAT(Broken(Checked(Start() + Begin(uint64_t{1} << 62) + End(uint64_t{3} << 62))),
              UnorderedElementsAre(Pair("slice-order", 1)));
}

TEST(PerfettoCheckTest, SequencesBeyondTheFirstAreLeftOutAndNotJudged) {
  constexpr uint64_t kSequences = 100'000;
  std::string bytes = Start() + Begin(1);
  for (uint64_t sequence = 2; sequence <= kSequences; ++sequence) bytes += Packet("", sequence);
  EXPECT_THAT(Broken(Checked(bytes)), UnorderedElementsAre(Pair("slice-balance", 1)));
  const std::string end =
      Packet(Number(8, 2) + Bytes(11, Number(9, 2) + Number(11, 5)), kSequences + 1);
  const CheckReport report = Checked(bytes + end + end);
  EXPECT_THAT(Broken(report), IsEmpty());
  EXPECT_THAT(report.unchecked, ElementsAre(StartsWith("2 packets")));
}

TEST(PerfettoCheckTest, PacketsOfOtherKindsAreTakenAsTheyAre) {
  EXPECT_THAT(Broken(Checked(Start() + Packet(Bytes(1, "\xff\xff ftrace")) + Begin(1) + End(2))),
              IsEmpty());
}

}  // namespace
}  // namespace profd::check
