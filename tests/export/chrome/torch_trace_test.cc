// One step of tests/client_lib/torch/programs/convnet.py as torch.profiler of torch 2.15.0 wrote it
// (torch_step.json.gz: the events of operators, arrows and memory, their times from the first one),
// told to us as the client library would have and exported again: it has to say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/sink/gunzip.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::Eq;
using ::testing::SizeIs;

constexpr std::string_view kEngineFrame = "autograd::engine::evaluate_function: ";

std::string FixturePath() {
  const char* const source = std::getenv("PROFD_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) /
         "tests/export/chrome/torch_step.json.gz";
}

int64_t Nanoseconds(const JsonValue& micros) { return std::llround(micros.number() * 1000); }

std::string Text(const JsonValue& value) {
  if (value.is_string()) {
    std::string text = "\"";
    AppendJsonEscaped(value.text, text);
    return text + "\"";
  }
  if (!value.is_array()) return value.text;
  std::string text = "[";
  for (const JsonValue& item : value.items)
    StrAppend(&text, text.size() > 1 ? "," : "", Text(item));
  return text + "]";
}

// What has to be equal of an operator; its numbers of events need not be. torch's is 0 where it
// takes no execution trace, and profd knows none.
std::map<std::string, std::string> Arguments(const JsonValue& event) {
  std::map<std::string, std::string> arguments;
  for (const auto& [key, value] : event["args"].members) {
    if (key != "External id" && key != "Ev Idx" && key != "Record function id") {
      arguments.emplace(key, Text(value));
    }
  }
  return arguments;
}
std::map<std::string, std::string> MemoryArguments(const JsonValue& event) {
  std::map<std::string, std::string> arguments = Arguments(event);
  arguments.erase("finished");  // Kineto says that instants do not end.
  return arguments;
}

class TorchTraceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(FixturePath(), std::ios::binary);
    ASSERT_TRUE(file.is_open()) << FixturePath();
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const absl::StatusOr<std::string> text = GunzipOneMember(bytes);
    ASSERT_THAT(text, IsOk());
    absl::StatusOr<JsonValue> root = ParseStrictJson(*text);
    ASSERT_THAT(root, IsOk());
    theirs_ = *std::move(root);
    for (const JsonValue& event : theirs_.items) {
      if (event["ph"].text == "X") AddOperator(event);
      if (event["name"].text == "[memory]") AddMemory(event);
    }
    ours_ = TraceOf(reader_);
  }

  void AddOperator(const JsonValue& event) {
    const JsonValue& arguments = event["args"];
    const std::string& name = event["name"].text;
    // As recorded, the engine's frame has no numbers.
    const bool has_numbers = arguments.Find("Sequence number") != nullptr &&
                             !std::string_view(name).starts_with(kEngineFrame);
    FakeOperator op = {.torch_thread = 1};
    if (has_numbers) {
      op.sequence = arguments["Sequence number"].integer();
      op.forward_thread = static_cast<uint64_t>(arguments["Fwd thread id"].integer());
    }
    if (event["cat"].text == "user_annotation") op.scope = 7;
    if (op.forward_thread != 0) op.scope = 1;
    if (arguments.Find("Input Dims") != nullptr) {
      op.inputs = reader_.Inputs(Text(arguments["Input Dims"]), Text(arguments["Input type"]),
                                 Text(arguments["Input Strides"]));
      op.scalars = reader_.Scalars(Text(arguments["Concrete Inputs"]));
    }
    const int64_t start_ns = Nanoseconds(event["ts"]);
    reader_.Operator(main_, name, start_ns, start_ns + Nanoseconds(event["dur"]), op);
  }

  void AddMemory(const JsonValue& event) {
    const JsonValue& arguments = event["args"];
    const int64_t bytes = arguments["Bytes"].integer();
    const FakeMemory memory = {
        .total_allocated_bytes = arguments["Total Allocated"].integer(),
        .total_reserved_bytes = arguments["Total Reserved"].integer(),
        .device_type = static_cast<uint8_t>(arguments["Device Type"].integer()),
        .device_index = static_cast<int16_t>(arguments["Device Id"].integer())};
    const auto address = static_cast<uint64_t>(arguments["Addr"].integer());
    const int64_t time_ns = Nanoseconds(event["ts"]);
    if (bytes < 0) {
      reader_.Free(main_, time_ns, address, -bytes, memory);
    } else {
      reader_.Allocate(main_, time_ns, address, bytes, memory);
    }
  }

  int64_t OurTime(const JsonValue& event) {
    return UnixNs(ours_, event) - reader_.record().start_unix_ns;
  }

  JsonValue theirs_;
  JsonValue ours_;
  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

TEST_F(TorchTraceTest, OperatorsSayWhatTorchSaysOfThem) {
  using Key = std::tuple<std::string, int64_t, int64_t>;  // Name, start, duration.
  std::map<Key, const JsonValue*> ours;
  for (const JsonValue* event : Events(ours_, "X")) {
    ours[{(*event)["name"].text, OurTime(*event), TraceTimeNs((*event)["dur"])}] = event;
  }
  size_t compared = 0;
  for (const JsonValue& event : theirs_.items) {
    if (event["ph"].text != "X") continue;
    const auto found =
        ours.find({event["name"].text, Nanoseconds(event["ts"]), Nanoseconds(event["dur"])});
    ASSERT_NE(found, ours.end()) << event["name"].text;
    EXPECT_EQ((*found->second)["cat"].text, event["cat"].text) << event["name"].text;
    EXPECT_THAT(Arguments(*found->second), Eq(Arguments(event))) << event["name"].text;
    ++compared;
  }
  EXPECT_GT(compared, 300U);
  EXPECT_THAT(ours, SizeIs(compared));
}

TEST_F(TorchTraceTest, ArrowsAreThoseThatTorchDraws) {
  const auto arrows = [](const JsonValue& events, const auto& time_of) {
    std::map<int64_t, std::pair<int64_t, int64_t>> by_id;
    for (const JsonValue& event : events.items) {
      if (event["cat"].text != "fwdbwd") continue;
      auto& [from, to] = by_id[event["id"].integer()];
      (event["ph"].text == "s" ? from : to) = time_of(event);
    }
    std::set<std::pair<int64_t, int64_t>> ends;
    for (const auto& [id, arrow] : by_id) ends.insert(arrow);
    return ends;
  };
  const auto theirs =
      arrows(theirs_, [](const JsonValue& event) { return Nanoseconds(event["ts"]); });
  EXPECT_THAT(theirs, SizeIs(13));
  EXPECT_EQ(arrows(ours_["traceEvents"], [&](const JsonValue& event) { return OurTime(event); }),
            theirs);
}

TEST_F(TorchTraceTest, MemorySaysWhatTorchSaysOfIt) {
  using Key = std::pair<int64_t, std::map<std::string, std::string>>;
  std::multiset<Key> ours;
  std::multiset<Key> theirs;
  for (const JsonValue& event : ours_["traceEvents"].items) {
    if (event["name"].text == "[memory]") ours.insert({OurTime(event), MemoryArguments(event)});
  }
  for (const JsonValue& event : theirs_.items) {
    if (event["name"].text != "[memory]") continue;
    theirs.insert({Nanoseconds(event["ts"]), MemoryArguments(event)});
  }
  EXPECT_GT(theirs.size(), 100U);
  EXPECT_EQ(ours, theirs);
}

}  // namespace
}  // namespace profd::exporter
