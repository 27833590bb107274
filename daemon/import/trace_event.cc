#include "daemon/import/trace_event.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/damaged_event.h"
#include "daemon/import/json/skip.h"
#include "daemon/import/trace_splitter.h"

namespace profd::importer {
namespace {

namespace ondemand = simdjson::ondemand;
static_assert(TraceSplitter::kPaddingBytes >= simdjson::SIMDJSON_PADDING);

// What follows from others, or says nothing about the program: kept for exports only.
struct Derived {};
using Argument = std::variant<Derived, Number, Text>;

struct KnownArgument {
  Argument what;
  uint8_t id;
};

const absl::flat_hash_map<std::string_view, KnownArgument>& Arguments() {
  static const std::vector<std::pair<std::string_view, Argument>> kList = {
      {"External id", Number::kExternalId},
      {"external id", Number::kExternalId},
      {"correlation", Number::kCorrelation},
      {"device", Number::kDevice},
      {"context", Number::kContext},
      {"stream", Number::kStream},
      {"bytes", Number::kBytes},
      {"Sequence number", Number::kSequence},
      {"Fwd thread id", Number::kForwardThread},
      {"cbid", Number::kCbid},
      {"cid", Number::kCbid},
      {"result", Number::kResult},
      {"queued", Number::kQueued},
      {"registers per thread", Number::kRegisters},
      {"shared memory", Number::kSharedBytes},
      {"graph id", Number::kGraph},
      {"graph node id", Number::kGraphNode},
      {"fromDevice", Number::kFromDevice},
      {"toDevice", Number::kToDevice},
      {"wait_on_stream", Number::kWaitStream},
      {"wait_on_cuda_event_record_corr_id", Number::kWaitCorrelation},
      {"wait_on_cuda_event_id", Number::kWaitEvent},
      {"event_id", Number::kEvent},
      {"Addr", Number::kAddress},
      {"Total Allocated", Number::kTotalAllocated},
      {"Total Reserved", Number::kTotalReserved},
      {"Device Id", Number::kDeviceId},
      {"Device Type", Number::kDeviceType},
      {"Bytes", Number::kBytes},
      {"Ev Idx", Number::kEventIndex},
      {"Profiler Event Index", Number::kEventIndex},
      {"compile_ns", Number::kCompileNs},
      {"guards", Number::kGuards},
      {"events", Number::kEvents},
      {"grid", Text::kGrid},
      {"block", Text::kBlock},
      {"cluster", Text::kCluster},
      {"Input Dims", Text::kDims},
      {"Input dims", Text::kDims},
      {"Input type", Text::kTypes},
      {"Input Strides", Text::kStrides},
      {"Concrete Inputs", Text::kScalars},
      {"cuda_sync_kind", Text::kSyncKind},
      {"name", Text::kName},
      {"finished", Text::kFinished},
      {"began_before_window", Text::kBegan},
      {"ended_after_window", Text::kEnded},
      {"ended_with_thread", Text::kUnended},
      {"never_ended", Text::kUnended},
      {"launched_by_device", Text::kLaunchedByDevice},
      {"value", Text::kValue},
      {"", Text::kUnnamed},
      {"where", Text::kWhere},
      {"reason", Text::kReason},
      {"code", Text::kCode},
      {"feature", Text::kFeature},
      {"inside_of", Text::kInsideOf},
      {"Collective name", Text::kCollectiveName},
      {"dtype", Text::kCollectiveType},
      {"In msg nelems", Text::kInElements},
      {"Out msg nelems", Text::kOutElements},
      {"In split size", Text::kInSplit},
      {"Out split size", Text::kOutSplit},
      {"Process Group Name", Text::kGroupName},
      {"Process Group Description", Text::kGroupDescription},
      {"Process Group Ranks", Text::kGroupRanks},
      {"Group size", Text::kGroupSize},
      {"Rank", Text::kRank},
      {"Global rank start", Text::kFirstRank},
      {"Global rank stride", Text::kRankStride},
      {"Call stack", Text::kCallStack},
      {"Module", Text::kModule},
      {"Python id", Number::kPythonId},
      {"Python parent id", Derived()},
      {"Python module id", Derived()},
      {"Python thread", Derived()},
      {"Record function id", Derived()},
      {"Trace name", Derived()},
      {"Trace iteration", Derived()},
      {"blocks per SM", Derived()},
      {"warps per SM", Derived()},
      {"est. achieved occupancy %", Derived()},
      {"theoretical occupancy %", Derived()},
      {"occupancy", Derived()},
      {"memory bandwidth (GB/s)", Derived()},
      {"inDevice", Derived()},
      {"launch_not_recorded", Derived()},
      {"labels", Derived()},
      {"sort_index", Derived()},
      {"Op count", Derived()},
  };
  static const auto* const kArguments = [] {
    auto* const arguments = new absl::flat_hash_map<std::string_view, KnownArgument>;
    for (size_t i = 0; i < kList.size() && i < kMaxArgumentIds; ++i) {
      arguments->emplace(kList[i].first, KnownArgument{kList[i].second, static_cast<uint8_t>(i)});
    }
    return arguments;
  }();
  return *kArguments;
}

std::string_view Trimmed(std::string_view token) {
  while (!token.empty() && (token.back() == ' ' || token.back() == '\n' || token.back() == '\r' ||
                            token.back() == '\t')) {
    token.remove_suffix(1);
  }
  return token;
}

std::string_view WithoutQuotes(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"') return token.substr(1, token.size() - 2);
  return {};
}

}  // namespace

struct EventParser::Impl {
  using Error = simdjson::error_code;

  // Numbers, strings and words as they are written; objects and arrays whole.
  static Error Raw(ondemand::value value, std::string_view& raw) {
    ondemand::json_type type;
    Error error = value.type().get(type);
    if (error) return error;
    if (type == ondemand::json_type::array) {
      ondemand::array array;
      error = value.get_array().get(array);
      if (!error) error = array.raw_json().get(raw);
    } else if (type == ondemand::json_type::object) {
      ondemand::object object;
      error = value.get_object().get(object);
      if (!error) error = object.raw_json().get(raw);
    } else {
      raw = value.raw_json_token();
    }
    raw = Trimmed(raw);
    if (error || raw.empty() || raw[0] == '"' || (raw[0] >= '0' && raw[0] <= '9')) return error;
    // simdjson does not look into what is taken raw: "nan" begins like null, and "-inf" like a
    // number.
    return HasNonFinite(raw) ? simdjson::NUMBER_ERROR : simdjson::SUCCESS;
  }

  // The key as it is written: keys that matter have no escapes.
  static Error Key(simdjson::simdjson_result<ondemand::field>& field, std::string_view& key) {
    ondemand::raw_json_string raw;
    if (const Error error = field.key().get(raw)) return error;
    const char* end = raw.raw();
    // simdjson has checked that the key ends in a quote, so this loop does, too.
    while (*end != '"') end += *end == '\\' ? 2 : 1;
    key = std::string_view(raw.raw(), static_cast<size_t>(end - raw.raw()));
    return simdjson::SUCCESS;
  }

  Error ReadArguments(ondemand::object arguments) {
    for (auto field : arguments) {
      std::string_view key;
      if (const Error error = Key(field, key)) return error;
      std::string_view raw;
      ondemand::value value;
      if (const Error error = field.value().get(value)) return error;
      if (const Error error = Raw(value, raw)) return error;
      const auto known = Arguments().find(key);
      if (known == Arguments().end()) {
        // Some releases write what they did not record as an empty text.
        if (raw != "\"\"") unknown.push_back(key);
        raw_arguments.push_back({key, raw, kUnknownArgument});
        continue;
      }
      raw_arguments.push_back({key, raw, known->second.id});
      const Argument& what = known->second.what;
      if (std::holds_alternative<Derived>(what)) continue;
      if (const Text* const text = std::get_if<Text>(&what)) {
        event.texts[static_cast<size_t>(*text)] = raw;
        event.texts_present |= TraceEvent::Bit(*text);
      } else if (const std::optional<int64_t> number = ParseInteger(raw)) {
        const Number which = std::get<Number>(what);
        event.numbers[static_cast<size_t>(which)] = *number;
        event.numbers_present |= TraceEvent::Bit(which);
      } else if (std::get<Number>(what) == Number::kStream && raw != "null" && raw != "\"\"") {
        event.stream = raw;
      }
    }
    return simdjson::SUCCESS;
  }

  Error ReadMember(std::string_view key, ondemand::value value) {
    if (key == "args") {
      ondemand::object arguments;
      // Some have none: null.
      if (value.get_object().get(arguments) != simdjson::SUCCESS) return simdjson::SUCCESS;
      return ReadArguments(arguments);
    }
    std::string_view raw;
    if (const Error error = Raw(value, raw)) return error;
    if (key == "ph") {
      const std::string_view phase = WithoutQuotes(raw);
      event.phase = phase.size() == 1 ? phase[0] : 0;
    } else if (key == "cat") {
      event.category = WithoutQuotes(raw);
    } else if (key == "name") {
      event.name = WithoutQuotes(raw);
    } else if (key == "pid") {
      event.pid = raw;
    } else if (key == "tid") {
      event.tid = raw;
    } else if (key == "ts") {
      event.start = ParseMicros(raw);
    } else if (key == "dur") {
      event.duration = ParseMicros(raw);
    } else if (key == "id") {
      event.flow = raw;
    } else if (key == "bp") {
      event.binds = raw;
    } else if (key == "s") {
      event.scope = WithoutQuotes(raw);
    }
    return simdjson::SUCCESS;
  }

  Error ReadEvent(ondemand::object object) {
    for (auto field : object) {
      std::string_view key;
      if (const Error error = Key(field, key)) return error;
      ondemand::value value;
      if (const Error error = field.value().get(value)) return error;
      if (const Error error = ReadMember(key, value)) return error;
    }
    return simdjson::SUCCESS;
  }

  // Gives the events of "[{...},{...}]" until one of them is no JSON. Returns where it
  // stopped: after the last event that it gave.
  absl::StatusOr<size_t> ParseRun(std::string_view array, OnEvent on_event,
                                  OnUnknownArgument on_unknown) {
    const simdjson::padded_string_view padded(array.data(), array.size(),
                                              array.size() + TraceSplitter::kPaddingBytes);
    size_t done = 1;
    ondemand::array events;
    if (parser.iterate(padded).get(document) || document.get_array().get(events)) return done;
    for (auto element : events) {
      ondemand::object object;
      event = TraceEvent();
      unknown.clear();
      raw_arguments.clear();
      if (element.get_object().get(object) || ReadEvent(object)) return done;
      event.arguments = raw_arguments;
      for (const std::string_view key : unknown) on_unknown(event, key);
      RETURN_IF_ERROR(on_event(event));
      const char* at = nullptr;
      if (document.current_location().get(at) || at <= array.data() ||
          at > array.data() + array.size()) {
        break;  // That was the last one.
      }
      done = static_cast<size_t>(at - array.data());
    }
    return array.size();
  }

  // The same, with '?' for each byte that is part of no character.
  std::string_view WithValidText(std::string_view array) {
    valid.assign(array);
    for (size_t i = 0; i < valid.size();) {
      size_t length = 1;
      while (i + length < valid.size() && length < 4 && (valid[i + length] & 0xC0) == 0x80) {
        ++length;
      }
      if (!simdjson::validate_utf8(valid.data() + i, length)) {
        for (size_t j = i; j < i + length; ++j) {
          if ((valid[j] & 0x80) == 0) continue;
          valid[j] = '?';
          ++replaced_bytes;
        }
      }
      i += length;
    }
    const size_t size = valid.size();
    valid.resize(size + TraceSplitter::kPaddingBytes);
    return std::string_view(valid).substr(0, size);
  }

  std::string valid;
  int64_t replaced_bytes = 0;
  int64_t non_finite_numbers = 0;
  int64_t control_characters = 0;
  ondemand::parser parser;
  ondemand::document document;
  TraceEvent event;
  std::vector<std::string_view> unknown;
  std::vector<RawArgument> raw_arguments;
};

EventParser::EventParser() : impl_(std::make_unique<Impl>()) {}
EventParser::~EventParser() = default;

absl::Status EventParser::Parse(std::string_view array, int64_t offset, OnEvent on_event,
                                OnUnknownArgument on_unknown, OnDamage on_damage) {
  Impl& impl = *impl_;
  if (!simdjson::validate_utf8(array.data(), array.size())) array = impl.WithValidText(array);
  ASSIGN_OR_RETURN(size_t done, impl.ParseRun(array, on_event, on_unknown));
  // Each of the rest by itself. Where one is no JSON, what ends it is guessed from what begins the
  // next.
  // simdjson reads a run of events at full speed and stops at the first error. Only what is left of
  // that run is read one by one.
  std::string one;
  const auto parse_alone = [&](std::string_view text) -> absl::StatusOr<bool> {
    one.assign("[").append(text).append("]");
    const size_t size = one.size();
    one.resize(size + TraceSplitter::kPaddingBytes);
    const std::string_view alone = std::string_view(one).substr(0, size);
    ASSIGN_OR_RETURN(const size_t read, impl.ParseRun(alone, on_event, on_unknown));
    return read == size;
  };
  while (done < array.size()) {
    std::string_view rest = array.substr(0, array.size() - 1).substr(done);
    const size_t begin = std::min(rest.find('{'), rest.size());
    rest.remove_prefix(begin);
    done += begin;
    if (rest.empty()) break;
    const char* const end = SkipJsonValue(rest.data(), rest.data() + rest.size());
    size_t size = end == nullptr ? 0 : static_cast<size_t>(end - rest.data());
    if (size > 0) {
      ASSIGN_OR_RETURN(bool is_whole, parse_alone(rest.substr(0, size)));
      if (!is_whole) {
        const RepairedEvent repaired = RepairEvent(rest.substr(0, size));
        if (repaired.is_changed()) {
          ASSIGN_OR_RETURN(is_whole, parse_alone(repaired.json));
        }
        if (is_whole) {
          impl.non_finite_numbers += repaired.non_finite_numbers;
          impl.control_characters += repaired.control_characters;
        }
      }
      if (is_whole) {
        done += size;
        continue;
      }
    }
    size = std::min(EndOfDamagedEvent(rest), rest.size());
    on_damage(offset + static_cast<int64_t>(done + ByteOfDamage(rest.substr(0, size))) - 1);
    done += size;
  }
  return absl::OkStatus();
}

std::optional<uint8_t> ArgumentId(std::string_view key) {
  const auto found = Arguments().find(key);
  return found == Arguments().end() ? std::nullopt : std::optional(found->second.id);
}

int64_t EventParser::replaced_bytes() const { return impl_->replaced_bytes; }
int64_t EventParser::non_finite_numbers() const { return impl_->non_finite_numbers; }
int64_t EventParser::control_characters() const { return impl_->control_characters; }

std::string Unescape(std::string_view json) {
  if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  if (json.find('\\') == std::string_view::npos) return std::string(json);
  const nlohmann::json text =
      nlohmann::json::parse(StrCat("\"", json, "\""), nullptr, /*allow_exceptions=*/false);
  return text.is_string() ? text.get<std::string>() : std::string(json);
}

}  // namespace profd::importer
