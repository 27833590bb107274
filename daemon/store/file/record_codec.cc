#include "daemon/store/file/record_codec.h"

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/stable_hash.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/capture_fields.h"
#include "daemon/schedule/schedule_fields.h"

namespace profd::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRecordBytes = 8 << 20;
constexpr size_t kMaxGroupBytes = 64 << 20;
constexpr size_t kMaxArrayElements = 4096;
constexpr size_t kMaxQualityChecks = 64;
constexpr int64_t kMaxCpuNs = int64_t{1} << 60;  // Of all threads together.
constexpr size_t kMaxCheckBytes = 1024;          // Of a check's name and sentence.
constexpr size_t kMaxNames = 16'384;             // Of the nodes of a schedule.

// As in capture_fields.h: each Visit() names every field of its struct once.
template <typename Archive, SameStruct<GroupMember> T>
void Visit(Archive& archive, T& member) {
  archive("node", member.node);
  archive("address", member.address);
  archive("capture_id", member.capture_id);
  archive("pid", member.pid);
  archive("rank", member.rank);
  archive("state", member.state);
  archive("error", member.error);
  archive("clock_offset_ns", member.clock_offset_ns);
  archive("clock_bound_ns", member.clock_bound_ns);
}

template <typename Archive, SameStruct<GroupRecord> T>
void Visit(Archive& archive, T& group) {
  archive("id", group.id);
  archive("members", group.members);
  archive("first_step", group.first_step);
  archive("steps", group.steps);
  archive("create_unix_ns", group.create_time);
  archive("requested_by", group.requested_by);
  archive("closed", group.closed);
}

template <typename Archive, SameStruct<Principal> T>
void Visit(Archive& archive, T& principal) {
  archive("uid", principal.uid);
  archive("gid", principal.gid);
  archive("groups", principal.groups);
  archive("common_name", principal.common_name);
  archive("dns_names", principal.dns_names);
  archive("spiffe_id", principal.spiffe_id);
}

template <typename Archive, SameStruct<ScheduleRecord> T>
void Visit(Archive& archive, T& record) {
  archive("id", record.id);
  archive("spec", record.spec);
  archive("creator", record.creator);
  archive("create_unix_ns", record.create_time);
  archive("spec_hash", record.spec_hash);
  archive("version", record.version);
}

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

class Encoder {
 public:
  Json Take() { return std::move(json_); }

  template <typename T>
  void operator()(const char* key, const T& value) {
    json_[key] = ToJson(value);
  }

 private:
  // dump() throws on text that is not UTF-8, such as a command line of any bytes.
  static Json ToJson(const std::string& text) { return ToValidUtf8(text); }
  static Json ToJson(absl::Duration span) {
    if (span == absl::InfiniteDuration()) return kForever;
    if (span == -absl::InfiniteDuration()) return -kForever;
    return absl::ToInt64Nanoseconds(span);
  }
  static Json ToJson(absl::Time time) { return ToJson(time - absl::UnixEpoch()); }
  template <typename T>
  static Json ToJson(const std::map<std::string, T>& map) {
    Json json = Json::object();
    for (const auto& [key, value] : map) json[ToValidUtf8(key)] = ToJson(value);
    return json;
  }
  template <typename T>
  static Json ToJson(const std::vector<T>& elements) {
    Json json = Json::array();
    for (const T& element : elements) json.push_back(ToJson(element));
    return json;
  }
  static Json ToJson(const DropCounts& drops) { return Json(drops); }
  static Json ToJson(char letter) { return std::string(1, letter); }
  static Json ToJson(const std::optional<int64_t>& number) {
    return number.has_value() ? Json(*number) : Json();
  }
  template <typename T>
  requires std::is_enum_v<T>
  static Json ToJson(T value) { return static_cast<int>(value); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  static Json ToJson(T value) { return value; }
  template <typename T>
  requires std::is_class_v<T>
  static Json ToJson(const T& value) {
    Encoder nested;
    Visit(nested, value);
    return nested.Take();
  }

  Json json_ = Json::object();
};

// A missing key leaves the field as it was; a value of another type is an error.
class Decoder {
 public:
  explicit Decoder(const Json& json) : json_(json) { Check(json.is_object()); }
  bool ok() const { return ok_; }

  template <typename T>
  void operator()(const char* key, T& value) {
    if (!ok_) return;
    const auto it = json_.find(key);
    if (it != json_.end()) FromJson(*it, value);
  }

 private:
  bool Check(bool condition) {
    ok_ = ok_ && condition;
    return ok_;
  }
  void FromJson(const Json& json, int64_t& value) {
    // get<int64_t>() would silently wrap a larger unsigned number.
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() ||
                       json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (Check(fits)) value = json.get<int64_t>();
  }
  void FromJson(const Json& json, int& value) {
    int64_t wide = 0;
    FromJson(json, wide);
    if (Check(wide >= std::numeric_limits<int>::min() && wide <= std::numeric_limits<int>::max())) {
      value = static_cast<int>(wide);
    }
  }
  void FromJson(const Json& json, double& value) {
    // JSON has no NaN or infinity: they were written as null.
    if (json.is_null()) return;
    if (Check(json.is_number())) value = json.get<double>();
  }
  void FromJson(const Json& json, char& value) {
    if (Check(json.is_string() && json.get_ref<const std::string&>().size() == 1)) {
      value = json.get_ref<const std::string&>()[0];
    }
  }
  void FromJson(const Json& json, bool& value) {
    if (Check(json.is_boolean())) value = json.get<bool>();
  }
  void FromJson(const Json& json, std::string& value) {
    if (Check(json.is_string())) value = json.get<std::string>();
  }
  void FromJson(const Json& json, absl::Duration& value) {
    int64_t ns = 0;
    FromJson(json, ns);
    value = ns == kForever    ? absl::InfiniteDuration()
            : ns == -kForever ? -absl::InfiniteDuration()
                              : absl::Nanoseconds(ns);
  }
  void FromJson(const Json& json, absl::Time& value) {
    absl::Duration span;
    FromJson(json, span);
    value = absl::UnixEpoch() + span;
  }
  template <typename T>
  void FromJson(const Json& json, std::map<std::string, T>& value) {
    if (!Check(json.is_object() && json.size() <= kMaxArrayElements)) return;
    value.clear();
    for (const auto& [key, element] : json.items()) FromJson(element, value[key]);
  }
  template <typename T>
  void FromJson(const Json& json, std::vector<T>& value) {
    constexpr size_t kMost = std::is_same_v<T, std::string> ? kMaxNames : kMaxArrayElements;
    if (!Check(json.is_array() && json.size() <= kMost)) return;
    value.clear();
    for (const Json& element : json) FromJson(element, value.emplace_back());
  }
  void FromJson(const Json& json, std::vector<GroupMember>& value) {
    if (!Check(json.is_array() && std::ssize(json) <= kMaxGroupMembers)) return;
    value.clear();
    for (const Json& element : json) FromJson(element, value.emplace_back());
  }
  void FromJson(const Json& json, DropCounts& value) {
    if (!Check(json.is_array())) return;
    // An earlier profd knew fewer reasons and a later one may know more: the ones that both have
    // are read.
    for (size_t i = 0; i < std::min(json.size(), value.size()); ++i) FromJson(json[i], value[i]);
  }
  void FromJson(const Json& json, std::optional<int64_t>& value) {
    if (json.is_null()) return value.reset();
    FromJson(json, value.emplace());
  }
  template <typename T>
  requires std::is_enum_v<T>
  void FromJson(const Json& json, T& value) {
    constexpr int kFirst = static_cast<int>(EnumFacts<T>::kFirst);
    int number = kFirst;
    FromJson(json, number);
    const bool is_known = number >= kFirst && number <= static_cast<int>(EnumFacts<T>::kLast);
    if (Check(is_known)) value = static_cast<T>(number);
  }
  template <typename T>
  requires std::is_class_v<T>
  void FromJson(const Json& json, T& value) {
    Decoder nested(json);
    Visit(nested, value);
    Check(nested.ok());
  }

  const Json& json_;
  bool ok_ = true;
};

template <typename T>
std::string Encode(const T& value) {
  Encoder encoder;
  Visit(encoder, value);
  return encoder.Take().dump();
}

template <typename T>
absl::StatusOr<T> Decode(std::string_view untrusted, std::string_view what, size_t max_bytes) {
  if (untrusted.size() > max_bytes) {
    return absl::DataLossError(StrCat("the ", what, "'s record has ", untrusted.size(), " bytes"));
  }
  const Json json = Json::parse(untrusted.begin(), untrusted.end(), nullptr, false);
  if (json.is_discarded()) {
    return absl::DataLossError(StrCat("the ", what, "'s record is not JSON"));
  }
  T value;
  Decoder decoder(json);
  Visit(decoder, value);
  if (!decoder.ok()) {
    return absl::DataLossError(StrCat("the ", what, "'s record has a field of another type"));
  }
  return value;
}

bool IsGrade(std::string_view text) { return text.size() == 1 && text[0] >= 'A' && text[0] <= 'D'; }

// A grade that profd does not know is none: it is computed anew.
void CheckGrade(GradeRecord& graded) {
  bool known = IsGrade(graded.grade) && graded.checks.size() <= kMaxQualityChecks;
  for (QualityCheck& check : graded.checks) {
    known = known && IsGrade({&check.grade, 1});
    check.name = ForDisplay(check.name, kMaxCheckBytes);
    check.sentence = ForDisplay(check.sentence, kMaxCheckBytes);
  }
  if (!known) graded = {};
}

// Times that cannot be are none.
void CheckCpu(CpuRecord& cpu) {
  const auto is_time = [](int64_t ns) { return ns >= 0 && ns <= kMaxCpuNs; };
  bool possible = is_time(cpu.watched_ns) && is_time(cpu.after_watched_ns) && is_time(cpu.ran_ns) &&
                  is_time(cpu.waited_ns) && is_time(cpu.children_ran_ns) &&
                  is_time(cpu.children_waited_ns) && cpu.thread_count >= 0 &&
                  cpu.child_count >= 0 && cpu.unread_thread_count >= 0 &&
                  cpu.unread_child_count >= 0 && cpu.ended_thread_count >= 0 &&
                  cpu.unwatched_ran_ns >= -1 && cpu.unwatched_ran_ns <= kMaxCpuNs &&
                  cpu.threads.size() <= kMostCpuThreads && cpu.samples.size() <= kMostCpuSamples;
  for (const ThreadCpuRecord& thread : cpu.threads) {
    possible = possible && is_time(thread.ran_ns) && is_time(thread.waited_ns) &&
               is_time(thread.after_ran_ns) && is_time(thread.after_waited_ns);
  }
  const CpuSample* before = nullptr;
  for (const CpuSample& sample : cpu.samples) {
    possible = possible && sample.time_ns >= -kMaxCpuNs && sample.time_ns <= kMaxCpuNs &&
               is_time(sample.waited_ns) && is_time(sample.children_waited_ns);
    if (before != nullptr) {
      possible = possible && before->time_ns <= sample.time_ns &&
                 before->waited_ns <= sample.waited_ns &&
                 before->children_waited_ns <= sample.children_waited_ns;
    }
    before = &sample;
  }
  if (!possible) cpu = {};
}

}  // namespace

std::string EncodeRecord(const CaptureRecord& record) { return Encode(record); }
absl::StatusOr<CaptureRecord> DecodeRecord(std::string_view untrusted) {
  ASSIGN_OR_RETURN(CaptureRecord record,
                   Decode<CaptureRecord>(untrusted, "capture", kMaxRecordBytes));
  CheckGrade(record.graded);
  CheckCpu(record.cpu);
  record.slowdown.unknown_reason = ForDisplay(record.slowdown.unknown_reason, kMaxCheckBytes);
  return record;
}

std::string EncodeGroup(const GroupRecord& group) { return Encode(group); }
absl::StatusOr<GroupRecord> DecodeGroup(std::string_view untrusted) {
  return Decode<GroupRecord>(untrusted, "group", kMaxGroupBytes);
}

std::string EncodeSchedule(const ScheduleRecord& record) { return Encode(record); }
absl::StatusOr<ScheduleRecord> DecodeSchedule(std::string_view untrusted) {
  return Decode<ScheduleRecord>(untrusted, "schedule", kMaxRecordBytes);
}

std::string HashOfSpec(const ScheduleSpec& spec) {
  ScheduleSpec hashed = spec;
  if (!NodesDecide(spec)) hashed.nodes.clear();  // As SameSchedule() compares.
  return absl::StrFormat("%016x", StableHash().Add(Encode(hashed)).Value());
}

}  // namespace profd::store
