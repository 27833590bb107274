#include "daemon/rpc/convert/message_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "daemon/rpc/convert/schedule_spec.h"
#include "daemon/schedule/schedule_fields.h"
#include "profd/v1/captures.pb.h"
#include "profd/v1/schedules.pb.h"
#include "profd/v1/targets.pb.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Gives each field a value that is neither its default nor another field's; `flag` to all bools.
class Filler {
 public:
  explicit Filler(bool flag) : flag_(flag) {}

  template <typename T>
  void operator()(std::string_view name, T& value) {
    Fill(name, value);
  }

 private:
  template <std::integral T>
  void Fill(std::string_view, T& value) {
    value = static_cast<T>(++last_);
  }
  void Fill(std::string_view, bool& value) { value = flag_; }
  void Fill(std::string_view, char& value) { value = 'C'; }
  void Fill(std::string_view, double& value) { value = static_cast<double>(++last_) / 4; }
  void Fill(std::string_view name, std::string& value) {
    value = std::string(name) + std::to_string(++last_);
  }
  void Fill(std::string_view, absl::Time& value) { value = absl::FromUnixNanos(++last_); }
  void Fill(std::string_view, absl::Duration& value) { value = absl::Nanoseconds(++last_); }
  void Fill(std::string_view, DropCounts& value) { value.fill(++last_); }
  void Fill(std::string_view name, std::optional<int64_t>& value) { Fill(name, value.emplace()); }
  template <typename T>
  requires std::is_enum_v<T>
  void Fill(std::string_view, T& value) { value = EnumFacts<T>::kLast; }
  template <typename T>
  void Fill(std::string_view name, std::vector<T>& rows) {
    for (int i = 0; i < 2; ++i) Fill(name, rows.emplace_back());
  }
  template <typename T>
  void Fill(std::string_view name, std::map<std::string, T>& map) {
    for (const char* key : {"one", "two"}) Fill(name, map[key]);
  }
  template <typename T>
  requires std::is_class_v<T>
  void Fill(std::string_view, T& value) { Visit(*this, value); }

  const bool flag_;
  int64_t last_ = 0;
};

// Which fields only the struct has, and which only the message.
struct Partners {
  std::vector<std::string> only_struct;
  std::vector<std::string> only_message;
  size_t both = 0;
};

template <typename T, typename Message>
Partners PartnersOf() {
  Partners partners;
  std::set<const MessageField*> found;
  const auto note = [&]<typename Field>(std::string_view name, const Field&) {
    const MessageField* field = PartnerOf<Field>(*Message::descriptor(), name);
    if (field == nullptr) {
      partners.only_struct.emplace_back(name);
    } else {
      EXPECT_TRUE(found.insert(field).second) << name;
    }
  };
  const T value;
  Visit(note, value);
  for (int i = 0; i < Message::descriptor()->field_count(); ++i) {
    const MessageField* field = Message::descriptor()->field(i);
    if (!found.contains(field)) partners.only_message.push_back(field->name());
  }
  partners.both = found.size();
  return partners;
}

// Each field with a partner is in the message, and comes back from it.
template <typename T, typename Message>
void ExpectBothWays() {
  SCOPED_TRACE(Message::descriptor()->name());
  for (const bool flag : {false, true}) {
    T value;
    Filler filler(flag);
    Visit(filler, value);
    Message message;
    FieldsToMessage(value, message);
    T read;
    FieldsFromMessage(message, read);
    Message again;
    FieldsToMessage(read, again);
    EXPECT_EQ(message.DebugString(), again.DebugString());
    // A false one does not show.
    if (!flag) continue;
    std::vector<const MessageField*> set;
    message.GetReflection()->ListFields(message, &set);
    EXPECT_EQ(set.size(), (PartnersOf<T, Message>().both));
  }
}

TEST(MessageFieldsTest, EveryFieldThatBothSidesHaveGoesBothWays) {
  ExpectBothWays<GpuSpec, v1::GpuSpec>();
  ExpectBothWays<TorchSpec, v1::TorchSpec>();
  ExpectBothWays<CaptureSpec, v1::CaptureSpec>();
  ExpectBothWays<Workload, v1::Workload>();
  ExpectBothWays<TargetInfo, v1::Target>();
  ExpectBothWays<WindowRecord, v1::Window>();
  ExpectBothWays<GpuDevice, v1::GpuDevice>();
  ExpectBothWays<GpuKindFailure, v1::GpuKindFailure>();
  ExpectBothWays<GpuRecord, v1::GpuInfo>();
  ExpectBothWays<TorchMissing, v1::TorchMissing>();
  ExpectBothWays<TorchRecord, v1::TorchInfo>();
  ExpectBothWays<ImportRecord, v1::ImportInfo>();
  ExpectBothWays<SlowdownRecord, v1::Slowdown>();
  ExpectBothWays<QualityCheck, v1::QualityCheck>();
  ExpectBothWays<CaptureRecord, v1::Capture>();
  ExpectBothWays<TargetSelector, v1::TargetSelector>();
  ExpectBothWays<SampleSpec, v1::Sample>();
  ExpectBothWays<ScheduleBudget, v1::Budget>();
  ExpectBothWays<ScheduleSpec, v1::ScheduleSpec>();
}

// A new field that is missing on one side by mistake is found here.
TEST(MessageFieldsTest, FieldsWithoutAPartnerAreTheseAlone) {
  const auto expect_all = [](const Partners& partners) {
    EXPECT_THAT(partners.only_struct, IsEmpty());
    EXPECT_THAT(partners.only_message, IsEmpty());
  };
  expect_all(PartnersOf<GpuSpec, v1::GpuSpec>());
  expect_all(PartnersOf<TorchSpec, v1::TorchSpec>());
  expect_all(PartnersOf<CaptureSpec, v1::CaptureSpec>());
  expect_all(PartnersOf<Workload, v1::Workload>());
  expect_all(PartnersOf<WindowRecord, v1::Window>());
  expect_all(PartnersOf<GpuKindFailure, v1::GpuKindFailure>());
  expect_all(PartnersOf<TorchMissing, v1::TorchMissing>());
  expect_all(PartnersOf<TorchRecord, v1::TorchInfo>());
  expect_all(PartnersOf<SlowdownRecord, v1::Slowdown>());
  expect_all(PartnersOf<QualityCheck, v1::QualityCheck>());
  expect_all(PartnersOf<TargetSelector, v1::TargetSelector>());
  expect_all(PartnersOf<SampleSpec, v1::Sample>());
  expect_all(PartnersOf<ScheduleBudget, v1::Budget>());

  // What of a GPU only the analysis needs.
  const Partners device = PartnersOf<GpuDevice, v1::GpuDevice>();
  EXPECT_THAT(
      device.only_struct,
      ElementsAre("warp_threads", "max_threads_per_block", "max_threads_per_sm",
                  "max_blocks_per_sm", "registers_per_block", "registers_per_sm",
                  "shared_bytes_per_block", "shared_bytes_per_sm", "shared_bytes_per_block_optin"));
  EXPECT_THAT(device.only_message, IsEmpty());
  const Partners gpu = PartnersOf<GpuRecord, v1::GpuInfo>();
  EXPECT_THAT(gpu.only_struct, ElementsAre("streams"));
  EXPECT_THAT(gpu.only_message, IsEmpty());
  // What only an export needs.
  const Partners imported = PartnersOf<ImportRecord, v1::ImportInfo>();
  EXPECT_THAT(imported.only_struct, ElementsAre("members"));
  EXPECT_THAT(imported.only_message, IsEmpty());

  // The rest of these is computed for the answer, or has another form there.
  const Partners target = PartnersOf<TargetInfo, v1::Target>();
  EXPECT_THAT(target.only_struct, ElementsAre("number", "registered_unix_ns", "state"));
  EXPECT_THAT(target.only_message,
              UnorderedElementsAre("name", "register_time", "state", "job", "rank",
                                   "since_last_step_ns", "median_step_ns"));
  const Partners capture = PartnersOf<CaptureRecord, v1::Capture>();
  EXPECT_THAT(capture.only_struct, ElementsAre("id", "group_id", "spec", "schedule_id", "target",
                                               "drops", "cpu", "graded"));
  EXPECT_THAT(capture.only_message,
              UnorderedElementsAre("name", "group", "spec", "target", "schedule", "steps",
                                   "dropped_event_count", "dropped_by_reason", "quality", "pinned",
                                   "quality_checks", "quality_stored", "evicted_count",
                                   "evicted_captures"));
  const Partners schedule = PartnersOf<ScheduleSpec, v1::ScheduleSpec>();
  EXPECT_THAT(schedule.only_struct, ElementsAre("capture", "max_slowdown"));
  EXPECT_THAT(schedule.only_message, UnorderedElementsAre("capture", "governor"));
}

TEST(MessageFieldsTest, WhatIsNotSetIsUnset) {
  v1::CaptureSpec spec;
  FieldsToMessage(CaptureSpec(), spec);
  EXPECT_FALSE(spec.has_start_step());  // -1
  EXPECT_FALSE(spec.has_duration());    // Zero.
  EXPECT_TRUE(spec.has_warmup_steps());
  v1::Capture capture;
  FieldsToMessage(
      CaptureRecord{.armed_time = absl::InfinitePast(), .end_time = absl::InfiniteFuture()},
      capture);
  EXPECT_FALSE(capture.has_create_time());
  EXPECT_FALSE(capture.has_armed_time());
  EXPECT_FALSE(capture.has_end_time());
}

TEST(MessageFieldsTest, WhatIsUnsetLeavesTheMemberAsItIs) {
  CaptureSpec spec = {.warmup_steps = 5, .start_step = 6, .duration = absl::Seconds(7)};
  FieldsFromMessage(v1::CaptureSpec(), spec);
  EXPECT_EQ(spec.warmup_steps, 5);
  EXPECT_EQ(spec.start_step, 6);
  EXPECT_EQ(spec.duration, absl::Seconds(7));
  // A number without presence is what it says.
  WindowRecord window = {.first_step = -1};
  FieldsFromMessage(v1::Window(), window);
  EXPECT_EQ(window.first_step, 0);
}

TEST(MessageFieldsTest, ValuesOfANewerDaemonAreUnknownOrTheDefault) {
  v1::GpuInfo info;
  info.set_outcome("recorded_by_magic");
  info.set_mode("everything");
  GpuRecord gpu;
  FieldsFromMessage(info, gpu);
  EXPECT_EQ(gpu.outcome, GpuOutcome::kUnknown);
  EXPECT_EQ(gpu.mode, GpuMode::kOff);
  // A daemon from before GPU captures says nothing.
  GpuRecord none;
  FieldsFromMessage(v1::GpuInfo(), none);
  EXPECT_EQ(none.outcome, GpuOutcome::kOff);
  v1::GpuSpec spec;
  spec.set_mode(static_cast<v1::GpuSpec::Mode>(77));
  GpuSpec mode;
  FieldsFromMessage(spec, mode);
  EXPECT_EQ(mode.mode, GpuMode::kAuto);
}

TEST(ScheduleSpecTest, AnyTimeIsAnEnd) {
  v1::ScheduleSpec message;
  ScheduleSpecToProto({.end_time = absl::UnixEpoch()}, message);
  EXPECT_TRUE(message.has_end_time());
  EXPECT_EQ(ScheduleSpecOf(message).end_time, absl::UnixEpoch());
  v1::ScheduleSpec endless;
  ScheduleSpecToProto({}, endless);
  EXPECT_FALSE(endless.has_end_time());
  EXPECT_EQ(ScheduleSpecOf(endless).end_time, absl::InfiniteFuture());
}

TEST(MessageFieldsTest, TextsThatAreNotUtf8AreMadeValid) {
  v1::GpuInfo info;
  FieldsToMessage(GpuRecord{.problem = "a\xff"}, info);
  EXPECT_EQ(info.problem(), "a\xef\xbf\xbd");
  v1::ImportInfo imported;
  FieldsToMessage(ImportRecord{.not_understood = {{"\xff", 3}}}, imported);
  EXPECT_EQ(imported.not_understood().at("\xef\xbf\xbd"), 3);
}

}  // namespace
}  // namespace profd::rpc
