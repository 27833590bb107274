// What NsysEvents makes of NVTX_EVENTS.
#include <algorithm>
#include <array>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/nsys/events.h"
#include "daemon/import/nsys/tables.h"
#include "daemon/import/nsys/torch_text.h"

namespace profd::importer {
namespace {

// Payloads come last.
constexpr std::array<std::string_view, 16> kNvtxColumns = {
    "globalTid",  "start",      "end",         "eventType",  "text",        "textId",
    "domainId",   "category",   "uint64Value", "int64Value", "doubleValue", "uint32Value",
    "int32Value", "floatValue", "jsonTextId",  "jsonText"};
enum : size_t { kNvtxType = 3, kNvtxText, kNvtxTextId, kNvtxDomain, kNvtxCategory, kNvtxPayload };

constexpr int64_t kDefaultDomain = 0;
constexpr size_t kMaxDomains = 1000;
constexpr size_t kMaxDomainBytes = 255;

}  // namespace

// Domains, and the names of threads, may be made after what is in them.
absl::Status NsysEvents::ReadDomains() {
  return ForEach(kNvtxTable, kNvtxColumns, [&](const Fields& fields) -> absl::Status {
    const auto type = static_cast<NvtxType>(fields.Int(kNvtxType).value_or(0));
    if (type != NvtxType::kDomain && type != NvtxType::kThreadName) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string text, NvtxName(fields));
    const std::optional<int64_t> owner = fields.Int(kOwner);
    const std::optional<int64_t> domain = fields.Int(kNvtxDomain);
    if (type == NvtxType::kThreadName && owner.has_value()) {
      builder_.NameThread(PidOf(process_), TidOf(*owner), text);
    } else if (type == NvtxType::kDomain && domain.has_value() && domains_.size() < kMaxDomains) {
      domains_.insert_or_assign(*domain, text.substr(0, kMaxDomainBytes));
    } else {
      Count(kNvtxTable, StrCat("of type ", static_cast<int64_t>(type)));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> NsysEvents::NvtxName(const Fields& fields) {
  if (const auto text = fields.Text(kNvtxText); text.has_value()) {
    return std::string(*text);
  }
  const std::optional<int64_t> id = fields.Int(kNvtxTextId);
  if (!id.has_value()) return std::string();
  ASSIGN_OR_RETURN(const std::optional<std::string> text, source_.TextOf(*id));
  if (!text.has_value()) fields.CountDetail(kNvtxTextId);
  return text.value_or("");
}

absl::Status NsysEvents::AddNvtx(bool open_ones) {
  return ForEach(kNvtxTable, kNvtxColumns, [&](const Fields& fields) -> absl::Status {
    const int64_t type = fields.Int(kNvtxType).value_or(0);
    const bool is_mark = IsNvtxMark(type);
    const bool is_open = IsNvtxRange(type) && fields.IsNull(kEnd) && fields.Int(kStart).has_value();
    if (open_ones != (open_ones && is_open)) return absl::OkStatus();
    if (!open_ones && is_open) {
      ++open_range_count_;
      if (IsNvtxSpan(type)) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::string name, NvtxName(fields));
      const int64_t start_ns = *fields.Int(kStart);
      const std::string key = PushKey(fields, name);
      if (const auto known = last_open_push_ns_.find(key); known != last_open_push_ns_.end()) {
        known->second = std::max(known->second, start_ns);
      } else if (last_open_push_ns_.size() < kMostOpenPushes) {
        last_open_push_ns_.emplace(key, start_ns);
      }
      return absl::OkStatus();
    }
    if (!IsNvtxEvent(type)) {
      const bool is_read = type == static_cast<int64_t>(NvtxType::kDomain) ||
                           type == static_cast<int64_t>(NvtxType::kThreadName);
      if (!is_read) Count(kNvtxTable, StrCat("of type ", type));
      return absl::OkStatus();
    }
    std::optional<Times> times;
    if (is_open) {
      const int64_t start_ns = *fields.Int(kStart);
      times = Times{.start_ns = start_ns, .duration_ns = 0};
      const std::optional<int64_t> last_ns = builder_.last_ns();
      int64_t duration_ns = 0;
      if (last_ns.has_value() && !__builtin_sub_overflow(*last_ns, start_ns, &duration_ns)) {
        times->duration_ns = std::max<int64_t>(duration_ns, 0);
      }
    } else if (is_mark) {
      const std::optional<int64_t> time = fields.Int(kStart);
      if (time.has_value()) times = Times{.start_ns = *time, .duration_ns = 0};
      if (!time.has_value()) Count(kNvtxTable, "without start or end");
    } else {
      times = TimesOf(fields, kNvtxTable);
    }
    if (!times.has_value()) return absl::OkStatus();
    std::optional<uint32_t> thread = ThreadOf(fields, kNvtxTable);
    if (!thread.has_value()) return absl::OkStatus();
    if (IsNvtxSpan(type)) {
      thread = builder_.LaneFor(*thread, times->start_ns, times->start_ns + times->duration_ns);
    }
    ASSIGN_OR_RETURN(std::string name, NvtxName(fields));
    uint8_t flags = is_open ? kRangeOpen : uint8_t{0};
    if (is_open && !IsNvtxSpan(type)) {
      const auto last = last_open_push_ns_.find(PushKey(fields, name));
      if (last != last_open_push_ns_.end() && times->start_ns < last->second) {
        flags |= kRangeUnended;
      }
    }
    const int64_t domain = fields.Int(kNvtxDomain).value_or(kDefaultDomain);
    const auto known = domains_.find(domain);
    // As in captures of profd's own.
    if (known != domains_.end() && !known->second.empty()) name = StrCat(known->second, ":", name);
    if (fields.Int(kNvtxCategory).value_or(0) != 0) fields.CountDetail(kNvtxCategory);
    for (size_t i = kNvtxPayload; i < kNvtxColumns.size(); ++i) {
      if (!fields.IsNull(i)) fields.CountDetail(i);
    }
    if (is_mark) return Note(kNvtxTable, builder_.AddMark(*thread, times->start_ns, name));
    return AddNvtxRange(*thread, *times, flags, name);
  });
}

std::string NsysEvents::PushKey(const Fields& fields, std::string_view name) {
  return StrCat(fields.Int(kOwner).value_or(0), " ", fields.Int(kNvtxDomain).value_or(0), " ",
                name);
}

absl::Status NsysEvents::AddNvtxRange(uint32_t thread, const Times& times, uint8_t flags,
                                      std::string_view name) {
  CaptureBuilder::RangeEvent range = {.thread = thread,
                                      .start_ns = times.start_ns,
                                      .duration_ns = times.duration_ns,
                                      .name = name,
                                      .flags = flags};
  if (const std::optional<TorchText> torch = ParseTorchText(name); torch.has_value()) {
    range.is_operator = true;
    range.name = torch->name;
    range.sequence = torch->sequence;
    range.dims = torch->dims;
  }
  return Note(kNvtxTable, builder_.AddRangeEvent(range));
}

}  // namespace profd::importer
