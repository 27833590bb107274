#include "tests/cupti_standin/test_client.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

namespace sgpu {
namespace {

TestClient* current = nullptr;

template <typename Function>
void Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

std::string Standin::PathOf(const std::string& file) {
  const char* const build = std::getenv("PROFD_BUILD_DIR");
  return std::string(build == nullptr ? "build/release" : build) + "/lib/cupti_standin/" + file;
}

const Standin& Standin::Load(const std::string& file) {
  static std::map<std::string, std::unique_ptr<Standin>> loaded;
  std::unique_ptr<Standin>& standin = loaded[file];
  if (standin != nullptr) return *standin;
  standin = std::make_unique<Standin>();
  void* const library = dlopen(PathOf(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  if (library == nullptr) return *standin;
#define SGPU_TEST_FIND(name, type) Find(library, #name, standin->name);
  SGPU_TEST_CUPTI_FUNCTIONS(SGPU_TEST_FIND)
#undef SGPU_TEST_FIND
#define SGPU_TEST_FIND(name) Find(library, #name, standin->name);
  SGPU_TEST_SGPU_FUNCTIONS(SGPU_TEST_FIND)
#undef SGPU_TEST_FIND
  return *standin;
}

TestClient::TestClient(const std::string& file, sgpu_time_mode mode) : cupti_(Standin::Load(file)) {
  current = this;
  sgpu_opts options{};
  options.size = sizeof(options);
  options.device_count = 2;
  options.time_mode = mode;
  EXPECT_EQ(cupti_.sgpu_init(&options), 0);
  EXPECT_EQ(cupti_.sgpu_default_stream(1, &stream_), 0);
}

TestClient::~TestClient() {
  cupti_.sgpu_shutdown();
  current = nullptr;
}

void TestClient::Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  TestClient& client = *current;
  const std::lock_guard lock(client.mu_);
  client.request_threads_.push_back(ThreadId());
  if (client.on_request_) client.on_request_();
  *buffer = nullptr;
  *size = client.buffer_bytes_;
  *max_records = client.max_records_;
  if (client.give_null_) return;
  constexpr size_t kAlignment = 64;
  std::vector<uint8_t> memory(client.buffer_bytes_ + 2 * kAlignment, client.fill_);
  const size_t misaligned = reinterpret_cast<uintptr_t>(memory.data()) % kAlignment;
  *buffer = memory.data() + (kAlignment - misaligned) + client.buffer_offset_;
  client.given_.emplace(*buffer, std::move(memory));
}

void TestClient::Done(CUcontext, uint32_t, uint8_t* buffer, size_t size, size_t valid_size) {
  TestClient& client = *current;
  const std::lock_guard lock(client.mu_);
  if (client.on_complete_) client.on_complete_();
  const auto it = client.given_.find(buffer);
  ASSERT_NE(it, client.given_.end()) << "a buffer that was not given, or came back before";
  client.completed_.push_back(
      {{buffer, buffer + std::min(valid_size, size)}, size, valid_size, ThreadId()});
  client.retired_.push_back(std::move(it->second));
  client.given_.erase(it);
}

void TestClient::Trace(const std::vector<uint32_t>& kinds) {
  ASSERT_EQ(cupti_.cuptiActivityRegisterCallbacks(&Requested, &Done), CUPTI_SUCCESS);
  for (const uint32_t kind : kinds) ASSERT_EQ(Enable(kind), CUPTI_SUCCESS) << kind;
}

void TestClient::Disable(const std::vector<uint32_t>& kinds) {
  for (const uint32_t kind : kinds) {
    ASSERT_EQ(cupti_.cuptiActivityDisable(static_cast<CUpti_ActivityKind>(kind)), CUPTI_SUCCESS);
  }
}

void TestClient::Set(const std::string& key, int64_t value) {
  ASSERT_EQ(cupti_.sgpu_set(key.c_str(), std::to_string(value).c_str()), 0) << key;
}

void TestClient::SetAttribute(uint32_t attribute, uint64_t value, size_t bytes) {
  ASSERT_EQ(cupti_.cuptiActivitySetAttribute(static_cast<CUpti_ActivityAttribute>(attribute),
                                             &bytes, &value),
            CUPTI_SUCCESS);
}

std::vector<CompletedBuffer> TestClient::Completed() {
  const std::lock_guard lock(mu_);
  return completed_;
}

size_t TestClient::OutstandingBuffers() {
  const std::lock_guard lock(mu_);
  return given_.size();
}

// By the library itself: what its walk strides is the size.
size_t TestClient::RecordSize(uint32_t kind) {
  std::vector<uint64_t> buffer(512, kind);
  auto* const bytes = reinterpret_cast<uint8_t*>(buffer.data());
  CUpti_Activity* record = nullptr;
  const size_t size = buffer.size() * sizeof(uint64_t);
  if (cupti_.cuptiActivityGetNextRecord(bytes, size, &record) != CUPTI_SUCCESS) return 0;
  if (cupti_.cuptiActivityGetNextRecord(bytes, size, &record) != CUPTI_SUCCESS) return 0;
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes);
}

std::vector<Seen> TestClient::Records() {
  std::map<uint32_t, size_t> sizes;
  std::vector<Seen> records;
  const std::vector<CompletedBuffer> buffers = Completed();
  for (size_t index = 0; index < buffers.size(); ++index) {
    const std::vector<uint8_t>& bytes = buffers[index].bytes;
    for (size_t at = 0; at < bytes.size();) {
      uint32_t kind = 0;
      std::memcpy(&kind, &bytes[at], sizeof(kind));
      if (!sizes.contains(kind)) sizes[kind] = RecordSize(kind);
      const size_t size = sizes[kind];
      EXPECT_NE(size, 0U) << "kind " << kind << " at " << at;
      EXPECT_LE(at + size, bytes.size());
      if (size == 0 || at + size > bytes.size()) break;
      records.push_back({kind, {&bytes[at], &bytes[at] + size}, index, at});
      at += size;
    }
  }
  return records;
}

std::vector<Seen> TestClient::Records(uint32_t kind) {
  std::vector<Seen> records = Records();
  std::erase_if(records, [kind](const Seen& seen) { return seen.kind != kind; });
  return records;
}

std::vector<Seen> TestClient::FlushAll() {
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(1), CUPTI_SUCCESS);
  return Records();
}

std::vector<sgpu_truth_rec> TestClient::Truth() {
  std::vector<sgpu_truth_rec> records(cupti_.sgpu_truth(nullptr, 0));
  cupti_.sgpu_truth(records.data(), static_cast<uint32_t>(records.size()));
  return records;
}

std::vector<sgpu_truth_rec> TestClient::Truth(uint32_t kind) {
  std::vector<sgpu_truth_rec> records = Truth();
  std::erase_if(records, [kind](const sgpu_truth_rec& each) { return each.kind != kind; });
  return records;
}

sgpu_stats_rec TestClient::Stats() {
  sgpu_stats_rec stats{};
  stats.size = sizeof(stats);
  EXPECT_EQ(cupti_.sgpu_stats(&stats), 0);
  return stats;
}

void TestClient::WaitUntil(const std::function<bool()>& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace sgpu
