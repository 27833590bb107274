// The fuzz targets with a little generated input, so that every build runs them. The `fuzz`
// preset looks longer (tests/other/fuzz_test.sh).
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/file/column_codec.h"
#include "gtest/gtest.h"
#include "proto/wire/event.h"

namespace profd {

void FuzzCgroup(std::span<const uint8_t> data);
void FuzzCheck(std::span<const uint8_t> data);
void FuzzConfig(std::span<const uint8_t> data);
void FuzzCron(std::span<const uint8_t> data);
void FuzzColumnCodec(std::span<const uint8_t> data);
void FuzzCaptureFile(std::span<const uint8_t> data);
void FuzzEventDecoder(std::span<const uint8_t> data);
void FuzzFrame(std::span<const uint8_t> data);
void FuzzHttp2Frames(std::span<const uint8_t> data);
void FuzzPolicy(std::span<const uint8_t> data);
void FuzzContexts(std::span<const uint8_t> data);
void FuzzNodeList(std::span<const uint8_t> data);
void FuzzNsysImport(std::span<const uint8_t> data);
void FuzzRpc(std::span<const uint8_t> data);
void FuzzTraceImport(std::span<const uint8_t> data);

namespace {

std::vector<uint8_t> Bytes(std::mt19937& random, size_t most) {
  std::vector<uint8_t> bytes(random() % (most + 1));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

constexpr std::pair<std::string_view, void (*)(std::span<const uint8_t>)> kTargets[] = {
    {"capture_file", &FuzzCaptureFile},
    {"cgroup", &FuzzCgroup},
    {"check", &FuzzCheck},
    {"column_codec", &FuzzColumnCodec},
    {"config", &FuzzConfig},
    {"contexts", &FuzzContexts},
    {"cron", &FuzzCron},
    {"event_decoder", &FuzzEventDecoder},
    {"frame", &FuzzFrame},
    {"http2_frames", &FuzzHttp2Frames},
    {"node_list", &FuzzNodeList},
    {"nsys_import", &FuzzNsysImport},
    {"policy", &FuzzPolicy},
    {"rpc", &FuzzRpc},
    {"trace_import", &FuzzTraceImport}};

TEST(FuzzReplayTest, EveryTargetSurvivesItsCorpus) {
  for (const auto& [name, target] : kTargets) {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(PROFD_FUZZ_CORPUS) / name)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
      target({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
      ++files;
    }
    EXPECT_GT(files, 0) << name;
  }
}

// Both kinds of traces of the corpus, with a few bytes changed.
TEST(FuzzReplayTest, CheckedTracesSurviveNoiseAndMutations) {
  std::mt19937 random(10);
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PROFD_FUZZ_CORPUS) / "check")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(in), {});
    ASSERT_FALSE(bytes.empty());
    for (int round = 0; round < 1'000; ++round) {
      std::vector<uint8_t> data = bytes;
      for (size_t changes = random() % 6; changes > 0; --changes) {
        data[random() % data.size()] =
            random() % 2 == 0 ? static_cast<uint8_t>(random()) : bytes[random() % bytes.size()];
      }
      FuzzCheck(data);
      FuzzCheck(Bytes(random, 60));
    }
  }
}

TEST(FuzzReplayTest, ColumnCodecSurvivesNoiseAndMutations) {
  std::mt19937 random(1);
  store::ColumnEncoder encoder;
  for (int round = 0; round < 5'000; ++round) {
    FuzzColumnCodec(Bytes(random, 200));
    std::vector<uint32_t> values(1 + random() % 300);
    for (uint32_t& value : values) value = static_cast<uint32_t>(random() >> (random() % 32));
    std::string column = {static_cast<char>(random() % 6), static_cast<char>(values.size()),
                          static_cast<char>(values.size() >> 8)};
    encoder.Encode(std::span<const uint32_t>(values), static_cast<ColumnTransform>(random() % 2),
                   column);
    for (size_t i = 0; i < random() % 4; ++i) {
      column[random() % column.size()] = static_cast<char>(random());
    }
    const auto* data = reinterpret_cast<const uint8_t*>(column.data());
    FuzzColumnCodec({data, column.size()});
  }
}

TEST(FuzzReplayTest, Http2FramesAreCountedAlikeHoweverTheyAreCut) {
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> data = Bytes(random, 300);
    // Short frames of known types, so that many follow each other.
    for (size_t at = 2; at + 9 < data.size(); at += 9 + random() % 4) {
      data[at] = data[at + 1] = 0;
      data[at + 2] = static_cast<uint8_t>(random() % 4);
      data[at + 3] = static_cast<uint8_t>(random() % 11);
    }
    FuzzHttp2Frames(data);
  }
}

TEST(FuzzReplayTest, CaptureFileSurvivesPatches) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) FuzzCaptureFile(Bytes(random, 60));
}

// Events of every kind, with a few bytes changed.
TEST(FuzzReplayTest, TraceImportSurvivesMutations) {
  constexpr std::string_view kEvents =
      R"({"ph":"X","cat":"cpu_op","name":"a\\u00e9","pid":1,"tid":1,"ts":1.5,"dur":9,"args":{)"
      R"("Sequence number":5,"Fwd thread id":1,"Input Dims":[[1,2]],"Input type":["f"]}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"l","pid":1,"tid":1,"ts":2,"dur":1,)"
      R"("args":{"correlation":8}},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":4,"dur":1,"args":{)"
      R"("correlation":8,"device":0,"stream":7,"grid":[1,2,3],"block":[4,5,6]}},)"
      R"({"ph":"X","cat":"cuda_sync","name":"Stream Sync","ts":6,"dur":1,"args":{)"
      R"("stream":-1,"wait_on_cuda_event_record_corr_id":3}},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","tid":"x","ts":1,"dur":9},)"
      R"({"ph":"i","name":"[memory]","ts":3,"args":{"Bytes":-9223372036854775808,"Addr":1}},)"
      R"({"ph":"C","name":"c","ts":3,"args":{"value":1e400}},)"
      R"j({"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"thread 1 (a)"}})j";
  std::mt19937 random(9);
  for (int round = 0; round < 400; ++round) {
    std::vector<uint8_t> data = {1};
    data.insert(data.end(), kEvents.begin(), kEvents.end());
    for (size_t changes = random() % 6; changes > 0; --changes) {
      data[1 + random() % (data.size() - 1)] =
          random() % 2 == 0 ? static_cast<uint8_t>(random())
                            : static_cast<uint8_t>(kEvents[random() % kEvents.size()]);
    }
    FuzzTraceImport(data);
    FuzzTraceImport(Bytes(random, 60));
  }
}

// A database with a few bytes changed; see nsys_import_fuzz.cc.
TEST(FuzzReplayTest, NsysImportSurvivesMutations) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> data = {1};
    const size_t changes = random() % 20;
    for (size_t j = 0; j < 4 * changes; ++j) data.push_back(static_cast<uint8_t>(random()));
    FuzzNsysImport(data);
  }
}

// A record per 32 bytes, mostly well formed; see event_decoder_fuzz.cc for the layout.
std::vector<uint8_t> NearlyChunks(std::mt19937& random) {
  std::vector<uint8_t> data = {0, 0, 0, 1, 0, 2, 255, 255};
  for (int chunk = 0; chunk < 4; ++chunk) {
    const auto records = static_cast<uint8_t>(1 + random() % 60);
    data.insert(data.end(),
                {static_cast<uint8_t>(records * 4), 0, static_cast<uint8_t>(chunk / 2),
                 static_cast<uint8_t>(1 + random() % 2), static_cast<uint8_t>(random() % 4)});
    uint32_t time = 100'000u * static_cast<uint32_t>(1 + chunk);
    for (int i = 0; i < records; ++i, time += 200) {
      std::vector<uint8_t> record(32);
      record[0] = 32;
      record[2] = static_cast<uint8_t>(1 + random() % 6);
      std::memcpy(&record[8], &time, 3);
      record[16] = 90;
      record[24] = static_cast<uint8_t>(random() % 32);
      if (random() % 16 == 0) record[random() % 32] = static_cast<uint8_t>(random());
      data.insert(data.end(), record.begin(), record.end());
    }
  }
  return data;
}

// GPU events of every kind, mostly well formed; in every mode.
std::vector<uint8_t> NearlyGpuChunks(std::mt19937& random) {
  // By wire::EventKind, from kApiCall on.
  constexpr std::array<uint8_t, 13> kWords = {5, 15, 9, 9, 6, 6, 4, 4, 7, 11, 2, 3, 29};
  std::vector<uint8_t> data = {static_cast<uint8_t>(random() % 4), 0, 0, 1, 0, 2, 255, 255};
  for (int chunk = 0; chunk < 4; ++chunk) {
    std::vector<uint8_t> records;
    for (uint32_t i = 0; i < 60; ++i) {
      const size_t kind = random() % kWords.size();
      std::vector<uint8_t> record(size_t{8} * kWords[kind]);
      for (size_t at = 8; at < record.size(); at += 4) record[at] = random() % 8;
      record[0] = static_cast<uint8_t>(record.size());
      record[2] = static_cast<uint8_t>(16 + kind);
      record[3] = random() % 32;
      record[4] = random() % 4;
      // A time of two bytes and a duration of one.
      if (record.size() > 16) record[9] = static_cast<uint8_t>(random());
      if (record.size() > 16) record[12] = 0;
      if (record.size() > 24) record[20] = 0;
      if (random() % 16 == 0) record[random() % record.size()] = static_cast<uint8_t>(random());
      records.insert(records.end(), record.begin(), record.end());
    }
    const size_t words = records.size() / 8;
    data.insert(data.end(), {static_cast<uint8_t>(words), static_cast<uint8_t>(words >> 8), 0,
                             static_cast<uint8_t>(1 + random() % 2), 0});
    data.insert(data.end(), records.begin(), records.end());
  }
  return data;
}

// Operators with inputs of every kind, their ranges behind them, and what is told of them, mostly
// well formed.
std::vector<uint8_t> NearlyTorchChunks(std::mt19937& random) {
  std::vector<uint8_t> data = {0, 0, 0, 1, 0, 2, 255, 255};
  const auto append = [](const auto& value, std::vector<uint8_t>& to) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof(value));
  };
  uint32_t time = 5'000;
  for (int chunk = 0; chunk < 4; ++chunk) {
    std::vector<uint8_t> records;
    const auto finish = [&](std::vector<uint8_t> record, wire::EventKind kind) {
      record[0] = static_cast<uint8_t>(record.size());
      record[1] = static_cast<uint8_t>(record.size() >> 8);
      record[2] = static_cast<uint8_t>(kind);
      if (random() % 16 == 0) record[random() % record.size()] = static_cast<uint8_t>(random());
      records.insert(records.end(), record.begin(), record.end());
    };
    for (int i = 0; i < 20; ++i, time += 1'000) {
      wire::OperatorEvent begun{};
      begun.start_ticks = time;
      begun.depth = static_cast<uint16_t>(random() % 3);
      begun.sequence = static_cast<int64_t>(random() % 4) - 1;
      std::vector<uint8_t> inputs;
      for (size_t left = random() % 6; left > 0; --left) {
        wire::OperatorInput input{};
        input.kind = static_cast<uint8_t>(random() % 11);
        input.dtype = static_cast<int8_t>(random() % 50);
        input.rank = static_cast<uint8_t>(random() % 4);
        input.flags = static_cast<uint8_t>(random() % 8);
        input.count = random() % 5;
        append(input, inputs);
        for (size_t words = random() % 6; words > 0; --words) {
          append(uint64_t{random() % 64}, inputs);
        }
        ++begun.described_count;
      }
      begun.input_count = static_cast<uint8_t>(begun.described_count);
      std::vector<uint8_t> record;
      append(begun, record);
      record.insert(record.end(), inputs.begin(), inputs.end());
      finish(std::move(record), wire::EventKind::kOperator);

      wire::RangeEvent range{};
      range.start_ticks = time;
      range.duration_ticks = 500;
      range.name_id = random() % 32;
      range.depth = begun.depth;
      range.category = 1;
      record.clear();
      append(range, record);
      finish(std::move(record), wire::EventKind::kRange);
    }
    wire::NoteEvent note{};
    note.subject_id = random() % 34;
    note.text_id = random() % 34;
    note.kind = static_cast<uint16_t>(random() % 9);
    wire::BlockEvent block{};
    block.name_id = random() % 34;
    block.category = static_cast<uint16_t>(random() % 9);
    wire::TorchStatusEvent status{};
    status.recorded = random() % 8;
    std::vector<uint8_t> record;
    append(note, record);
    finish(std::move(record), wire::EventKind::kNote);
    record.clear();
    append(block, record);
    finish(std::move(record), wire::EventKind::kBlock);
    record.clear();
    append(status, record);
    finish(std::move(record), wire::EventKind::kTorchStatus);
    const size_t words = records.size() / 8;
    data.insert(data.end(), {static_cast<uint8_t>(words), static_cast<uint8_t>(words >> 8), 0,
                             static_cast<uint8_t>(1 + random() % 2), 0});
    data.insert(data.end(), records.begin(), records.end());
  }
  return data;
}

TEST(FuzzReplayTest, EventDecoderSurvivesNoiseAndMutations) {
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    FuzzEventDecoder(Bytes(random, 3000));
    FuzzEventDecoder(NearlyChunks(random));
    FuzzEventDecoder(NearlyGpuChunks(random));
    FuzzEventDecoder(NearlyTorchChunks(random));
  }
}

TEST(FuzzReplayTest, SettingsSurviveNoiseAndMutations) {
  constexpr std::string_view kNames[] = {"data-dir",   "node-name",  "max-storage", "arm-timeout",
                                         "tls-reload", "reflection", "listen",      "max-targets"};
  constexpr std::string_view kValues[] = {"/a/../b", "gpu001", "20 GiB",  "30s",  "1ms", "true",
                                          "*:7411",  "[::]:1", "1048576", "1024", "-1",  ""};
  std::mt19937 random(13);
  for (int round = 0; round < 3'000; ++round) {
    FuzzConfig(Bytes(random, 60));
    const bool as_flags = random() % 2 == 0;
    std::string text = as_flags ? "1" : "0";
    for (size_t i = 1 + random() % 4; i > 0; --i) {
      text += as_flags ? "--" : "";
      text += kNames[random() % std::size(kNames)];
      text += "=";
      text += kValues[random() % std::size(kValues)];
      text += as_flags ? '\0' : '\n';
    }
    if (random() % 4 == 0) text[1 + random() % (text.size() - 1)] = static_cast<char>(random());
    FuzzConfig({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

TEST(FuzzReplayTest, CallsSurviveNoiseAndMutations) {
#ifdef __SANITIZE_THREAD__
  // map_field.h adds members there. The library that is installed lacks them, and looks at the maps
  // of a request that it could not parse.
  GTEST_SKIP() << "protobuf's maps have another layout under ThreadSanitizer than in its library";
#endif
  std::mt19937 random(14);
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PROFD_FUZZ_CORPUS) / "rpc")) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::vector<uint8_t> data(std::istreambuf_iterator<char>(in), {});
    ASSERT_FALSE(data.empty());
    data[random() % data.size()] = static_cast<uint8_t>(random());
    FuzzRpc(data);
    FuzzRpc(Bytes(random, 40));
  }
}

TEST(FuzzReplayTest, PoliciesSurviveNoiseAndNearlyRules) {
  constexpr std::string_view kWords[] = {"allow ",
                                         "deny ",
                                         "map ",
                                         "any ",
                                         "unknown ",
                                         "uid:5 ",
                                         "gid:3 ",
                                         "cn:alice ",
                                         "cn:a* ",
                                         "dns:a* ",
                                         "spiffe://c.local/* ",
                                         "all ",
                                         "list ",
                                         "list,capture ",
                                         "own ",
                                         "job:1 ",
                                         "uid:7 ",
                                         "namespace:x ",
                                         "\n",
                                         "\"",
                                         "# "};
  std::mt19937 random(11);
  for (int round = 0; round < 3'000; ++round) {
    FuzzPolicy(Bytes(random, 60));
    std::string text;
    for (int line = 0; line < 4; ++line) {
      text += kWords[random() % 3];
      text += kWords[3 + random() % 8];
      text += kWords[11 + random() % 3];
      text += kWords[random() % 8 == 0 ? random() % std::size(kWords) : 14 + random() % 4];
      text += '\n';
    }
    if (random() % 4 == 0) text[random() % text.size()] = static_cast<char>(random());
    FuzzPolicy({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

TEST(FuzzReplayTest, FramesSurviveNoiseAndMutations) {
  std::mt19937 random(4);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> packet = Bytes(random, 200);
    if (!packet.empty()) packet[0] = random() % 2;
    FuzzFrame(packet);
  }
}

TEST(FuzzReplayTest, ContextsSurviveNoiseAndNearlyFiles) {
  std::mt19937 random(7);
  const std::array<std::string_view, 14> pieces = {"current = a\n",
                                                   "[a]\n",
                                                   "[b]\n",
                                                   "address = localhost:1\n",
                                                   "nodes = g[1-9]",
                                                   "tls-ca = /ca\n",
                                                   "tls-cert = /c\n",
                                                   "tls-key = /k\n",
                                                   "# [",
                                                   "tls-server-name=",
                                                   "\n",
                                                   "address = unix:/x\n",
                                                   "=",
                                                   "\x80"};
  for (int round = 0; round < 5'000; ++round) {
    FuzzContexts(Bytes(random, 100));
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += pieces.at(random() % pieces.size());
    FuzzContexts({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

TEST(FuzzReplayTest, CgroupPathsSurviveNoiseAndMutations) {
  std::mt19937 random(8);
  constexpr std::string_view kPieces[] = {
      "/",
      "0::",
      "\n",
      "1:name=systemd:",
      "..",
      "system.slice",
      "user.slice",
      "slurmstepd.scope",
      "slurm",
      "uid_1",
      "job_7",
      "kubepods",
      "kubepods.slice",
      "burstable",
      "pod",
      ".scope",
      "kubepods-pod8c2a0e4e_1111_2222_3333_444455556666.slice",
      "user@1.service",
      "pod8c2a0e4e-1111-2222-3333-444455556666",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  for (int round = 0; round < 5'000; ++round) {
    FuzzCgroup(Bytes(random, 60));
    std::string text = "0::";
    for (size_t i = random() % 8; i > 0; --i) {
      text += "/";
      text += kPieces[random() % std::size(kPieces)];
      if (random() % 4 == 0) text += kPieces[random() % std::size(kPieces)];
    }
    FuzzCgroup({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

TEST(FuzzReplayTest, CronExpressionsSurviveNoiseAndMutations) {
  std::mt19937 random(6);
  constexpr std::string_view kFields[] = {"*", "*/7",   "0",       "59", "1-5", "29",
                                          "2", "1,3,5", "0-30/10", "31", "7"};
  for (int round = 0; round < 2'000; ++round) {
    FuzzCron(Bytes(random, 40));
    std::string text;
    for (int i = 0; i < 5; ++i) {
      text += i == 0 ? "" : " ";
      text += kFields[random() % std::size(kFields)];
    }
    if (random() % 4 == 0) text[random() % text.size()] = static_cast<char>(random());
    FuzzCron({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

TEST(FuzzReplayTest, NodeListsSurviveNoiseAndMutations) {
  std::mt19937 random(5);
  constexpr std::string_view kPieces[] = {
      "gpu", "n",  "[1-3]", "[08-11,7]", ",",     ":7000", "[", "]",  "-",
      "=",   "/a", "unix:", " ",         "[::1]", "@",     "0", "12", "dns:"};
  for (int round = 0; round < 20'000; ++round) {
    FuzzNodeList(Bytes(random, 40));
    std::string text;
    for (size_t i = random() % 8; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
    if (!text.empty() && random() % 4 == 0) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    FuzzNodeList({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
}

}  // namespace
}  // namespace profd
