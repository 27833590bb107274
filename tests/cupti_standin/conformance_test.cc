// Holds the stand-in against NVIDIA's own libcupti 13.0, where the toolkit is installed: no GPU is
// needed for that. real_cupti_probe.cc says what is asked of the real one.
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRealCupti[] = SGPU_REAL_CUPTI;  // Empty where there is none.

class ConformanceTest : public TestClient {
 protected:
  void SetUp() override {
    if (*kRealCupti == '\0') {
      GTEST_SKIP() << "no libcupti.so.13 of NVIDIA's was found when this was configured: install "
                      "the CUDA 13 toolkit, or set PROFD_REAL_CUPTI";
    }
    const std::vector<std::string> version = Ask("version");
    ASSERT_EQ(version.size(), 1U);
    if (version[0] != "130001") {
      GTEST_SKIP() << kRealCupti << " is version " << version[0]
                   << "; the stand-in is held against 130001";
    }
  }

  // The lines that the probe answers.
  static std::vector<std::string> Ask(const std::string& question, const std::string& input = "") {
    const char* const build = std::getenv("PROFD_BUILD_DIR");
    const std::string probe =
        std::string(build == nullptr ? "build/release" : build) + "/tests/bin/real_cupti_probe";
    std::string command =
        "ASAN_OPTIONS=detect_leaks=0 '" + probe + "' '" + kRealCupti + "' " + question;
    if (!input.empty()) command += " <'" + input + "'";
    std::FILE* const pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string text;
    char part[4096];
    while (const size_t bytes = std::fread(part, 1, sizeof(part), pipe)) text.append(part, bytes);
    EXPECT_EQ(pclose(pipe), 0) << command;
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  // A bit of everything.
  void RunSession() {
    Trace({kRuntime, kDriver, kKernel, kMemcpy, kPeerCopy, kMemset, kSynchronization, kCudaEvent,
           kExternalCorrelation, kOverhead, kMemory, kMemoryPool});
    for (const uint32_t kind : {kDevice, kContext, kStream}) {
      ASSERT_EQ(cupti_.cuptiActivityEnableAndDump(static_cast<CUpti_ActivityKind>(kind)),
                CUPTI_SUCCESS);
    }
    ASSERT_EQ(cupti_.sgpu_graph_begin(stream_), 0);
    ASSERT_EQ(Launch("node"), 0);
    uint32_t graph = 0;
    uint32_t exec = 0;
    ASSERT_EQ(cupti_.sgpu_graph_end(stream_, &graph), 0);
    ASSERT_EQ(cupti_.sgpu_graph_instantiate(graph, &exec), 0);
    ASSERT_EQ(cupti_.cuptiActivityPushExternalCorrelationId(
                  static_cast<CUpti_ExternalCorrelationKind>(3), 1),
              CUPTI_SUCCESS);
    for (int i = 0; i < 100; ++i) {
      uint32_t event = 0;
      uint64_t address = 0;
      ASSERT_EQ(Launch("gemm", 1000), 0);
      ASSERT_EQ(cupti_.sgpu_memcpy(stream_, SGPU_HTOD, 4096, 1, 1), 0);
      ASSERT_EQ(cupti_.sgpu_memcpy_peer(stream_, 0, 1, 4096), 0);
      ASSERT_EQ(cupti_.sgpu_memset(stream_, 0, 4096, 1), 0);
      ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
      ASSERT_EQ(cupti_.sgpu_malloc(stream_, 4096, 1, &address), 0);
      ASSERT_EQ(cupti_.sgpu_free(stream_, address, 1), 0);
      ASSERT_EQ(cupti_.sgpu_event_record(stream_, &event), 0);
      ASSERT_EQ(cupti_.sgpu_event_sync(event), 0);
    }
    ASSERT_EQ(Enable(kGraphTrace), CUPTI_SUCCESS);
    // An older graph would not survive that.
    ASSERT_EQ(cupti_.sgpu_graph_instantiate(graph, &exec), 0);
    ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
    ASSERT_EQ(cupti_.sgpu_settle(), 0);
    FlushAll();
    WaitUntil([&] { return Stats().buffers_out == 0; });
    for (const Seen& device : Records(kDevice)) {
      std::free(const_cast<char*>(device.As<DeviceRecord>().name));
    }
  }
};

TEST_F(ConformanceTest, TheRealWalkFindsTheSameRecordsInEveryBuffer) {
  buffer_bytes_ = 8192;
  RunSession();
  std::string path = ::testing::TempDir() + "cupti_standin_buffers_XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  close(file);
  {
    std::ofstream out(path, std::ios::binary);
    for (const CompletedBuffer& buffer : Completed()) {
      const uint64_t size = buffer.bytes.size();
      out.write(reinterpret_cast<const char*>(&size), sizeof(size));
      out.write(reinterpret_cast<const char*>(buffer.bytes.data()),
                static_cast<std::streamsize>(size));
    }
  }
  const std::vector<std::string> theirs = Ask("walk", path);
  unlink(path.c_str());

  std::vector<std::string> ours;
  std::set<uint32_t> kinds;
  const std::vector<Seen> records = Records();
  size_t next = 0;
  const size_t buffers = Completed().size();
  for (size_t buffer = 0; buffer < buffers; ++buffer) {
    for (; next < records.size() && records[next].buffer == buffer; ++next) {
      ours.push_back(std::to_string(records[next].offset) + " " +
                     std::to_string(records[next].kind));
      kinds.insert(records[next].kind);
    }
    ours.emplace_back("end 12");  // CUPTI_ERROR_MAX_LIMIT_REACHED
  }
  EXPECT_GT(buffers, 5U);
  EXPECT_EQ(kinds.size(), 16U) << "every kind that the stand-in records";
  EXPECT_EQ(theirs, ours);
}

TEST_F(ConformanceTest, RecordsOfAllKindsAreOfTheSameSize) {
  const std::vector<std::string> theirs = Ask("sizes");
  ASSERT_EQ(theirs.size(), 64U);
  for (uint32_t kind = 0; kind < theirs.size(); ++kind) {
    EXPECT_EQ(std::to_string(RecordSize(kind)), theirs[kind]) << "kind " << kind;
  }
}

// The names of the functions that the file of the stand-in exports, sgpu_* left out.
std::vector<std::string> ExportedNames(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  const std::string bytes = all.str();
  ElfW(Ehdr) header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  std::memcpy(sections.data(), &bytes[header.e_shoff], sections.size() * sizeof(ElfW(Shdr)));
  std::vector<std::string> names;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const char* const strings = &bytes[sections[section.sh_link].sh_offset];
    for (size_t at = 0; at < section.sh_size; at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, &bytes[section.sh_offset + at], sizeof(symbol));
      const std::string name = strings + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (!name.starts_with("sgpu_")) names.push_back(name);
    }
  }
  return names;
}

TEST_F(ConformanceTest, NoFunctionIsInvented) {
  const std::vector<std::string> names = ExportedNames(Standin::PathOf(kCupti13));
  ASSERT_GT(names.size(), 60U);
  std::string question = "has";
  for (const std::string& name : names) question += " " + name;
  const std::vector<std::string> theirs = Ask(question);
  ASSERT_EQ(theirs.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(theirs[i], "1") << names[i];
}

TEST_F(ConformanceTest, ApiCallsHaveTheSameNames) {
  const auto compare = [&](uint32_t domain, const auto& names) {
    std::string question = "names " + std::to_string(domain);
    for (const ApiName& name : names) question += " " + std::to_string(name.cbid);
    const std::vector<std::string> theirs = Ask(question);
    ASSERT_EQ(theirs.size(), std::size(names));
    for (size_t i = 0; i < std::size(names); ++i) EXPECT_EQ(names[i].name, theirs[i]);
  };
  compare(SGPU_DOMAIN_RUNTIME, kRuntimeNames);
  compare(SGPU_DOMAIN_DRIVER, kDriverNames);
}

TEST_F(ConformanceTest, WithoutDriverTheSameFunctionsFailInTheSameWay) {
  const std::vector<std::string> driver = Ask("driver");
  ASSERT_EQ(driver.size(), 1U);
  if (driver[0] == "0")
    GTEST_SKIP() << "this machine has a driver: what it is like without cannot be seen";
  Set("no_driver", 1);
  std::vector<std::string> ours;
  const auto add = [&](const char* what, CUptiResult result) {
    ours.push_back(std::string(what) + " " + std::to_string(result));
  };
  CUpti_SubscriberHandle handle = nullptr;
  uint64_t value = 0;
  size_t size = sizeof(value);
  add("subscribe",
      cupti_.cuptiSubscribe(
          &handle, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr));
  add("enable", Enable(kKernel));
  add("enable_invalid", Enable(6));
  add("disable", cupti_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME));
  add("dump", cupti_.cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE));
  add("flush", cupti_.cuptiActivityFlushAll(0));
  add("flush_period", cupti_.cuptiActivityFlushPeriod(10));
  add("get_attribute",
      cupti_.cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value));
  add("thread_ids", cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  add("runtime_api", cupti_.cuptiActivityEnableRuntimeApi(211, 1));
  add("hw_trace", cupti_.cuptiActivityEnableHWTrace(1));
  add("latency", cupti_.cuptiActivityEnableLatencyTimestamps(1));
  add("dropped", cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &size));
  add("timestamp", cupti_.cuptiGetTimestamp(&value));
  add("last_error", cupti_.cuptiGetLastError());
  add("finalize", cupti_.cuptiFinalize());
  add("finalize", cupti_.cuptiFinalize());
  EXPECT_EQ(Ask("refusals"), ours);
}

}  // namespace
}  // namespace sgpu
