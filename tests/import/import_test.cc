// What becomes of traces written for one rule each, and of damaged and foreign files.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "proto/wire/event.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr std::string_view kOp =
    R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":100.5,"dur":2.25,"args":{)"
    R"("External id":3,"Sequence number":5,"Fwd thread id":0,"Input Dims":[[2, 3],[]],)"
    R"("Input type":["float","Scalar"],"Concrete Inputs":["","1"]}})";

TEST_F(ImportTest, AnOperatorKeepsItsTimesAndInputs) {
  const auto reader = ReadEvents(kOp);
  ASSERT_NE(reader, nullptr);
  const CaptureRecord& record = reader->record();
  EXPECT_EQ(record.start_unix_ns, 100'500);
  EXPECT_EQ(record.covered_ns, 2'250);
  EXPECT_EQ(record.event_count, 1);
  EXPECT_EQ(record.state, CaptureState::kComplete);
  EXPECT_EQ(record.imported.source, "trace.json");
  EXPECT_EQ(record.imported.producer, "torch.profiler");
  EXPECT_EQ(record.imported.time_unit_ns, 1);
  EXPECT_TRUE(record.imported.not_understood.empty());
  EXPECT_EQ(record.target.pid, 7);
  EXPECT_EQ(record.torch.operators, OperatorMode::kShapes);
  EXPECT_THAT(LinesOf(*reader),
              ElementsAre("operator 9: aten::mm 0 0 seq 5 fwd 0 [[2,3],[]] [\"float\",\"Scalar\"]  "
                          "[\"\",\"1\"]",
                          "range 9: aten::mm 0 2250 depth 0 cat 1 flags 0"));
}

TEST_F(ImportTest, TimesOfTheTraceCountFromItsBaseWhereverThatStands) {
  const auto reader =
      Read(StrCat(R"({"traceEvents":[)", kOp, R"(],"baseTimeNanoseconds":1700000000000000000})"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().start_unix_ns, 1'700'000'000'000'100'500);
}

TEST_F(ImportTest, AnArrayOfEventsIsATraceToo) {
  const auto reader = Read(StrCat("\xEF\xBB\xBF [", kOp, "]\n"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().event_count, 1);
}

TEST_F(ImportTest, NamesOfOldReleasesAreKnown) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"Operator","name":"a","pid":1,"tid":1,"ts":1,"dur":9,)"
      R"("args":{"external id":"4","Input dims":[[1]],"Input type":["float"]}},)"
      R"({"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1,)"
      R"("args":{"correlation":8,"cbid":211}},)"
      R"({"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":4,"dur":1,)"
      R"("args":{"correlation":8,"device":0,"context":1,"stream":7}},)"
      R"j({"ph":"X","cat":"Memset","name":"Memset (Device)","pid":0,"tid":7,"ts":6,"dur":1,)j"
      R"("args":{"device":0,"stream":7,"bytes":64}})");
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE(reader->record().imported.not_understood.empty());
  EXPECT_EQ(reader->record().imported.time_unit_ns, 1000);
  EXPECT_EQ(reader->gpu_row_count(), 2);
  EXPECT_EQ(reader->record().gpu.orphan_count, 1) << "the memset has no call";
}

TEST_F(ImportTest, HipIsReadAsCudaIs) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1,)"
      R"("args":{"correlation":8,"cid":48}},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":9,"tid":3,"ts":4,"dur":1,)"
      R"("args":{"correlation":8}},)"
      R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":5,)"
      R"("args":{"Bytes":-256,"Addr":18446744073709551615,"Device Id":9,"Device Type":6}})");
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(LinesOf(*reader),
              ElementsAre("api 1: hipLaunchKernel 0 1000 corr 8 cbid 48 driver 0 result 0",
                          "gpu kind 1 k 2000 1000 dev 9 ctx 0 stream 3 corr 8 flags 0 graph 0/0 "
                          "bytes 0 kinds 0,0,0 grid 0,0,0 block 0,0,0 regs 0 shared 0",
                          "memory 1: 3000 18446744073709551615 256 -1 -1 dev 1:9 free 1"));
}

TEST_F(ImportTest, MemoryOfOtherAcceleratorsIsTheirs) {
  const auto memory = [](int type) {
    return StrCat(
        R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":5,)"
        R"("args":{"Bytes":256,"Addr":16,"Device Id":2,"Device Type":)",
        type, "}}");
  };
  for (const int type : {12, 13, 15, 19, 20}) {
    const auto reader = ReadEvents(memory(type));
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(LinesOf(*reader),
                ElementsAre(StrCat("memory 1: 0 16 256 -1 -1 dev ", type, ":2 free 0")));
  }
  // A device type without a name counts as a GPU, not as the CPU.
  const auto reader = ReadEvents(memory(99));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(LinesOf(*reader), ElementsAre("memory 1: 0 16 256 -1 -1 dev 1:2 free 0"));
}

TEST_F(ImportTest, StepsHaveTheirOwnEnds) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#8","pid":1,"tid":1,"ts":120,"dur":90},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":1,"tid":1,"ts":10,"dur":100},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#x","pid":1,"tid":1,"ts":20,"dur":1})");
  ASSERT_NE(reader, nullptr);
  ASSERT_EQ(reader->steps().size(), 2u);
  EXPECT_EQ(reader->steps()[0].index, 7);
  EXPECT_EQ(reader->steps()[0].start_ns, 0);
  EXPECT_EQ(reader->steps()[0].duration_ns, 100'000);
  EXPECT_EQ(reader->steps()[1].start_ns, 110'000);
  EXPECT_EQ(reader->steps()[1].duration_ns, 90'000);
  EXPECT_EQ(reader->step_thread(), 0);
  EXPECT_EQ(reader->record().covered_steps, 2);
  EXPECT_THAT(LinesOf(*reader), testing::Contains(HasSubstr("ProfilerStep#x")));
}

TEST_F(ImportTest, StepsOfTorch18AreOperators) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"Operator","name":"ProfilerStep#7","pid":1,"tid":1,"ts":1,"dur":9})");
  ASSERT_NE(reader, nullptr);
  ASSERT_EQ(reader->steps().size(), 1u);
  EXPECT_EQ(reader->steps()[0].index, 7);
  EXPECT_EQ(reader->steps()[0].duration_ns, 9'000);
}

TEST_F(ImportTest, WhatDoesNotFitIntoRowsIsCounted) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":90},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1,"dur":9},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":11,"dur":9},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#99999999999999999999","pid":1,)"
      R"("tid":1,"ts":21,"dur":9},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":31,"dur":1,)"
      R"("args":{"correlation":4294967297}},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":41,"dur":1,)"
      R"("args":{"device":1099511627776,"stream":7,"correlation":2}})");
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("ProfilerStep with the number of another", 1),
                                   Pair("ProfilerStep with a number beyond 64 bits", 1),
                                   Pair("cuda_runtime with a correlation beyond 32 bits", 1),
                                   Pair("kernel of an impossible device", 1)));
}

TEST_F(ImportTest, FunctionsOfPythonStandBesideTheirThread) {
  const auto reader = ReadEvents(StrCat(
      kOp, R"(,{"ph":"X","cat":"python_function","name":"a.py(1): f","pid":7,"tid":9,"ts":90,)"
           R"("dur":20,"args":{"Python id":1,"Python parent id":null,"Ev Idx":2}})"));
  ASSERT_NE(reader, nullptr);
  ASSERT_EQ(reader->threads().size(), 2u);
  EXPECT_EQ(reader->threads()[1].os_thread, 9);
  EXPECT_EQ(reader->threads()[1].name, "Python functions");
  EXPECT_TRUE(reader->record().imported.not_understood.empty());
  EXPECT_THAT(LinesOf(*reader),
              testing::Contains("range 9: a.py(1): f 0 20000 depth 0 cat 2 flags 0"));
}

TEST_F(ImportTest, ACollectiveSaysWhatTheTraceTellsOfIt) {
  const auto reader = ReadEvents(
      R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":1,"dur":2,"args":{)"
      R"("Collective name":"allreduce","dtype":"Float","In msg nelems":64,"Out msg nelems":64,)"
      R"("Group size":8,"Rank":3,"Global rank start":0,"Global rank stride":1,"In split size":"[]",)"
      R"("Out split size":"[]","Process Group Name":"0"}})");
  ASSERT_NE(reader, nullptr);
  ASSERT_EQ(reader->scalars().size(), 2u);
  EXPECT_EQ(reader->scalars()[1], R"(["","[0]","","3","allreduce","[]","[]","0","1","8"])");
  EXPECT_EQ(reader->inputs()[1].dims, "[[64],[],[],[],[],[],[],[],[],[]]");
}

TEST_F(ImportTest, TorchsNumberOfAThreadIsThatItsBackwardOperatorsName) {
  const auto reader =
      ReadEvents(R"({"ph":"X","cat":"cpu_op","name":"aten::mul","pid":1,"tid":1,"ts":1,"dur":2,)"
                 R"("args":{"Sequence number":5,"Fwd thread id":0}},)"
                 R"({"ph":"X","cat":"cpu_op","name":"MulBackward0","pid":1,"tid":2,"ts":5,"dur":2,)"
                 R"("args":{"Sequence number":5,"Fwd thread id":3}})");
  ASSERT_NE(reader, nullptr);
  std::map<uint32_t, uint32_t> torch_threads;
  ASSERT_THAT(reader->ForEach<OperatorRow>([&](const OperatorBatch& batch) {
    torch_threads[batch.thread] = batch.torch_thread[0];
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(torch_threads, ElementsAre(Pair(0, 3), Pair(1, 0)));
}

TEST_F(ImportTest, TheHeaderSaysWhoAndOnWhat) {
  const auto reader = Read(StrCat(
      R"({"deviceProperties":[{"id":0,"name":"NVIDIA H100","computeMajor":9,"numSms":132}],)"
      R"("distributedInfo":{"backend":"nccl","rank":3,"world_size":8},"host_name":"gpu1",)"
      R"("traceEvents":[{"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"python3"}},)"
      R"j({"ph":"M","name":"thread_name","pid":7,"tid":9,"args":{"name":"thread 9 (main)"}},)j",
      kOp, "]}"));
  ASSERT_NE(reader, nullptr);
  const CaptureRecord& record = reader->record();
  EXPECT_EQ(record.node, "gpu1");
  EXPECT_EQ(RankOf(record.target), 3);
  EXPECT_EQ(record.target.metadata.at("world_size"), "8");
  EXPECT_EQ(record.target.command, "python3");
  ASSERT_EQ(record.gpu.devices.size(), 1u);
  EXPECT_EQ(record.gpu.devices[0].sm_count, 132);
  EXPECT_EQ(reader->threads()[0].name, "main");
}

TEST_F(ImportTest, WhatIsNotUnderstoodIsCountedByKind) {
  const auto reader = ReadEvents(StrCat(
      kOp,
      R"(,{"ph":"B","cat":"cpu_op","name":"x","ts":1},{"ph":"B","ts":1},{"name":"y"},)"
      R"({"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":1},)"
      R"({"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":null,"dur":1},)"
      R"({"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":1e13,"dur":1},)"
      R"({"ph":"X","cat":"tea","name":"x","pid":1,"tid":1,"ts":1,"dur":1},)"
      R"({"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":1},)"
      R"({"ph":"X","cat":"kernel","name":"x","ts":101,"dur":1,"args":{"Tea":1,"Call stack":""}})"));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(
      reader->record().imported.not_understood,
      ElementsAre(Pair("a moment hours from all others, which is not in the capture", 1),
                  Pair("arg:kernel.Tea", 1), Pair("cat:tea", 1), Pair("cpu_op without dur", 1),
                  Pair("cpu_op without ts", 1), Pair("no ph", 1), Pair("ph:B without ph:E", 2),
                  Pair("ph:X without cat", 1)));
}

TEST_F(ImportTest, ATimeFarFromAllOthersIsNotUnderstood) {
  const auto reader = ReadEvents(
      StrCat(kOp, R"(,{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":1e14,"dur":1},)"
                  R"({"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":2,"dur":-5})"));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              ElementsAre(Pair("cpu_op more than a year away", 1),
                          Pair("cpu_op with a negative dur, taken as 0", 1)));
}

TEST_F(ImportTest, BytesThatAreNoTextDoNotSpoilTheRest) {
  const auto reader =
      ReadEvents(StrCat("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\xff\xc3\",\"pid\":1,\"tid\":"
                        "1,\"ts\":1,\"dur\":1},",
                        kOp));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().event_count, 2);
  // A detail of texts: no event is missing.
  EXPECT_EQ(reader->record().imported.not_understood.at("arg:bytes that are not UTF-8"), 2);
  EXPECT_EQ(reader->record().graded.grade, "B");
}

// ---- damaged and foreign files ----

TEST_F(ImportTest, ATraceThatWasThinnedLostEvents) {
  const auto trace_of = [this](int64_t id_step) {
    std::string events;
    for (int64_t i = 0; i < 200; ++i) {
      StrAppend(&events, i == 0 ? "" : ",",
                R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":1,"ts":)", 10 * i,
                R"(,"args":{"External id":)", 1 + i * id_step, "}}");
    }
    return ReadEvents(events);
  };
  const auto whole = trace_of(1);
  EXPECT_EQ(TotalDrops(whole->record().drops), 0);
  EXPECT_EQ(whole->record().graded.grade, "B");
  const auto thinned = trace_of(50);
  EXPECT_GT(thinned->record().drops[static_cast<size_t>(DropReason::kThinned)], 9'000);
  EXPECT_EQ(thinned->record().graded.grade, "D");
}

TEST_F(ImportTest, OneNumberThatJumpsIsNoLossIfTheOtherHasNoGap) {
  for (const std::string_view index : {"Ev Idx", "Profiler Event Index"}) {
    std::string events;
    for (int64_t i = 0; i < 240; ++i) {
      StrAppend(&events, i == 0 ? "" : ",",
                R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"dur":1,"ts":)", 10 * i,
                R"(,"args":{"External id":)", i < 100 ? 1 + i : 501 + i, ",\"", index, "\":", i,
                "}}");
    }
    EXPECT_EQ(TotalDrops(ReadEvents(events)->record().drops), 0) << index;
  }
}

TEST_F(ImportTest, OfADamagedTraceTheOtherEventsAreRead) {
  const std::string before = R"({"schemaVersion":1,"traceEvents":[)";
  for (const char* bad : {R"({"ph" "X"})", R"({"ph":"X",})", R"({"ph":})"}) {
    for (const std::string& text :
         {StrCat(before, kOp, ",", bad, "]}"), StrCat(before, bad, ",", kOp, "]}")}) {
      const auto imported = ImportText(text);
      ASSERT_THAT(imported, IsOk()) << bad;
      EXPECT_EQ(imported->record.event_count, 1) << bad;
      EXPECT_EQ(imported->record.imported.not_understood.size(), 1u) << bad;
    }
  }
  EXPECT_THAT(ImportText(StrCat(before, kOp, "]}}")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("after the end")));
}

TEST_F(ImportTest, AForeignFileIsNoTrace) {
  using enum absl::StatusCode;
  EXPECT_THAT(ImportText(""), StatusIs(kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(ImportText("PNG\x03\x04"), StatusIs(kInvalidArgument, HasSubstr("byte 0")));
  EXPECT_THAT(ImportText("[[1, 2]]"), StatusIs(kInvalidArgument, HasSubstr("byte 1")));
  EXPECT_THAT(ImportText(R"({"a":1})"), StatusIs(kInvalidArgument, HasSubstr("traceEvents")));
  EXPECT_THAT(ImportText(R"({"traceEvents":[]})"),
              StatusIs(kInvalidArgument, HasSubstr("no event")));
  EXPECT_THAT(Import(folder_.path() / "nothing.json"), StatusIs(kNotFound));
  EXPECT_THAT(Import(folder_.path()), StatusIs(kFailedPrecondition, HasSubstr("folder")));
  EXPECT_THAT(ImportText(R"({"profd":{"captures":[]},"traceEvents":[]})"),
              StatusIs(kFailedPrecondition, HasSubstr("several captures")));
}

TEST_F(ImportTest, DamagedGzipIsToldFromDamagedText) {
  EXPECT_THAT(ImportText("\x1f\x8b\x08"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gzip")));
  EXPECT_THAT(ImportText("\x1f\x8bnothing of the kind, nothing of the kind"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gzip")));
}

// One operator.
constexpr std::string_view kGzippedTrace(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x29\x4a\x4c\x4e\x75\x2d\x4b"
    "\xcd\x2b\x29\x56\xb2\x8a\xae\x56\x2a\xc8\x50\xb2\x52\x8a\x50\xd2\x51\x4a\x4e\x2c"
    "\x01\xb2\x92\x0b\x4a\xe3\xf3\x0b\x80\xdc\xbc\xc4\xdc\x54\x20\x3f\x11\xc8\x2c\xc8"
    "\x4c\x51\xb2\x32\xd4\x51\x2a\x81\xd1\xc5\x60\x2a\xa5\xb4\x08\x48\xd7\xc6\xd6\x02"
    "\x00\x12\xb4\xc1\x1f\x55\x00\x00\x00",
    89);

TEST_F(ImportTest, BytesAfterGzipAreIgnored) {
  for (const std::string& behind :
       {std::string(), std::string(512, '\0'), std::string("\x1fnoise")}) {
    const auto imported = ImportText(StrCat(kGzippedTrace, behind));
    ASSERT_THAT(imported, IsOk());
    EXPECT_EQ(imported->record.event_count, 1);
  }
}

TEST_F(ImportTest, AnotherProfilersFileIsNamed) {
  using enum absl::StatusCode;
  EXPECT_THAT(ImportText(std::string("SQLite format 3\0\x10", 17)),
              StatusIs(kInvalidArgument, HasSubstr("those of Nsight Systems")));
  EXPECT_THAT(ImportText(std::string("\n\x9d\xb2\x08\x12\x0e/host:metadata", 20)),
              StatusIs(kInvalidArgument, HasSubstr("XSpace")));
  EXPECT_THAT(ImportText(std::string("\n\x06\x40\x01\x50\x01\x68\x01", 8)),
              StatusIs(kInvalidArgument, HasSubstr("Perfetto")));
  const auto is_named = [&](std::string_view start, std::string_view name) {
    EXPECT_THAT(ImportText(StrCat(start, std::string(16, '\0'))),
                StatusIs(kInvalidArgument, HasSubstr(std::string(name))));
  };
  is_named(std::string_view("\xFF\xFE{\0", 4), "text in UTF-16");
  is_named(std::string_view("\xFF\xFE\0\0{\0\0\0", 8), "text in UTF-32");
  is_named(std::string_view("\0\0\xFE\xFF\0\0\0{", 8), "text in UTF-32");
  is_named("PK\x03\x04", "a zip archive");
  is_named("\x28\xB5\x2F\xFD", "zstd");
  is_named("<html>", "a web page");
  EXPECT_THAT(ImportText(R"([{"ph":"X","name":"fusion.1","pid":1,"tid":1,"ts":1,"dur":1}])"),
              StatusIs(kInvalidArgument, HasSubstr("JAX")));
  EXPECT_THAT(ImportText(R"([{"ph":"X","cat":"Op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,)"
                         R"("args":{"b":1,"c":1}}])"),
              StatusIs(kInvalidArgument, HasSubstr("it has 1 of kind 'cat:Op'")));
  EXPECT_THAT(
      ImportText(R"([{"ph":"E","pid":1,"tid":1,"ts":2},{"ph":"E","pid":1,"tid":1,"ts":2}])"),
      StatusIs(kInvalidArgument, HasSubstr("it has 2 of kind 'ph:E without ph:B'")));
}

TEST_F(ImportTest, NothingIsLeftOfAnImportThatFailed) {
  ASSERT_FALSE(ImportText(R"({"traceEvents":[{"ph":"X","cat":"cpu_op")").ok());
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("trace.json"));
}

TEST_F(ImportTest, NestingWithoutEndIsNoDanger) {
  const std::string deep(200'000, '[');
  EXPECT_FALSE(
      ImportText(StrCat(R"({"x":)", deep, std::string(deep.size(), ']'), R"(,"traceEvents":[]})"))
          .ok());
  EXPECT_FALSE(ImportText(StrCat(R"({"traceEvents":[{"args":{"Input Dims":)", deep, "}}]}")).ok());
}

TEST_F(ImportTest, AnEventLongerThanTheWindowIsRead) {
  const std::string name(3'000'000, 'n');
  const auto reader = ReadEvents(StrCat(R"({"ph":"X","cat":"cpu_op","name":")", name,
                                        R"(","pid":1,"tid":1,"ts":1,"dur":1},)", kOp));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().event_count, 2);
  EXPECT_EQ(reader->names()[1].size(), 4096u);
}

TEST_F(ImportTest, LongNamesStayDifferent) {
  const std::string begin(5'000, 'n');
  const auto event = [](const std::string& name) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":")", name,
                  R"(","pid":1,"tid":1,"ts":1,"dur":1})");
  };
  const auto reader = ReadEvents(StrCat(event(begin + "a"), ",", event(begin + "b"), ",",
                                        event(begin + "a"), ",", event(std::string(4'096, 'n'))));
  ASSERT_NE(reader, nullptr);
  std::set<std::string> names;
  for (const std::string& name : reader->names()) {
    if (name.starts_with("nnn")) names.insert(name);
    EXPECT_LE(name.size(), 4096u);
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_TRUE(names.contains(std::string(4'096, 'n')));
}

// HIP's are addresses, and -1 is one of a trace that does not say.
TEST_F(ImportTest, StreamsThatNeed64BitsStayDifferent) {
  const auto kernel = [](const char* stream, int at) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":)", stream, R"(,"ts":)", at,
                  R"(,"dur":5,"args":{"device":0,"context":1,"stream":)", stream, "}}");
  };
  const auto reader =
      ReadEvents(StrCat(kernel("94354525917696", 1), ",", kernel("94358820884992", 2), ",",
                        kernel("7", 3), ",", kernel("94354525917696", 10), ",", kernel("-1", 4)));
  ASSERT_NE(reader, nullptr);
  std::map<uint32_t, int> kernels;
  ASSERT_THAT(reader->ForEach<GpuRow>([&](const GpuBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) ++kernels[batch.stream[i]];
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(kernels, UnorderedElementsAre(Pair(7, 1), Pair(testing::_, 2), Pair(testing::_, 1),
                                            Pair(testing::_, 1)));
  EXPECT_EQ(reader->record().gpu.streams.size(), 4u);
}

TEST_F(ImportTest, WindowsMeetWithoutLosingAnEvent) {
  std::string events;
  constexpr int kEvents = 30'000;  // 4 MB: several windows.
  for (int i = 0; i < kEvents; ++i) {
    StrAppend(&events, i == 0 ? "" : " ,\n", R"({"ph":"X","cat":"cpu_op","name":"op)", i % 100,
              R"(","pid":1,"tid":1,"ts":)", i * 10, R"(.5,"dur":4,"args":{"Ev Idx":)", i,
              R"(,"Input Dims":[[1,2],[3]],"Input type":["a","b"]}})");
  }
  const auto reader = ReadEvents(events);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->record().event_count, kEvents);
  EXPECT_EQ(reader->record().covered_ns, (kEvents - 1) * 10'000 + 4'000);
  EXPECT_EQ(reader->inputs().size(), 2u);
}

TEST_F(ImportTest, ItEndsWhenItIsCancelled) {
  const auto imported = ImportTrace(Write("t.json", StrCat("[", kOp, "]")), Clock::Real(),
                                    {.directory = folder_.path(),
                                     .id = "",
                                     .group_id = "",
                                     .on_progress = nullptr,
                                     .is_cancelled = [] { return true; }});
  EXPECT_THAT(imported, StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace profd::importer
