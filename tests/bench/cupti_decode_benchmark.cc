// What turning CUPTI's records into events costs, with our own walk over a buffer and with
// cuptiActivityGetNextRecord of a real libcupti (or of the stand-in), in the same run.
//
//   cupti_decode_benchmark [RECORDS [ROUNDS]]
//
// The mix is a launch: the driver call, the runtime call around it and the kernel, one of
// 300; each tenth with a copy. Buffers are 2 MB, and all of them more than the caches hold.
// Events go to 64 KB chunks, as in a capture. Figures are ns of
// CPU time per record, the best of ROUNDS.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/record_decoder.h"
#include "proto/wire/capture_memory.h"
#include "tests/client_lib/cupti/record_buffer.h"

namespace profd {
namespace {

using client::RecordDecoder;
namespace cupti = client::cupti;

constexpr uint64_t kBufferBytes = 2u << 20;
constexpr uint32_t kKernels = 300;
constexpr uint64_t kStartNs = 1'790'000'000'000'000'000;

uint64_t ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

struct Buffers {
  std::vector<std::vector<uint64_t>> words;  // 8-aligned.
  std::vector<uint64_t> valid_bytes;
  uint64_t records = 0;
};

Buffers MakeBuffers(uint64_t record_count, const std::vector<std::string>& names) {
  Buffers buffers;
  std::byte* at = nullptr;
  uint64_t used = kBufferBytes;
  const auto add = [&](const auto& record) {
    if (used + sizeof(record) > kBufferBytes) {
      if (at != nullptr) buffers.valid_bytes.push_back(used);
      buffers.words.emplace_back(kBufferBytes / 8);
      at = reinterpret_cast<std::byte*>(buffers.words.back().data());
      used = 0;
    }
    memcpy(at + used, &record, sizeof(record));
    used += sizeof(record);
    ++buffers.records;
  };
  uint32_t correlation = 1;
  uint64_t now_ns = kStartNs;
  while (buffers.records < record_count) {
    cupti::ApiRecord call{};
    call.thread = 100 + correlation % 2;
    call.correlation = correlation;
    call.start_ns = now_ns + 200;
    call.end_ns = now_ns + 2000;
    call.kind = cupti::kKindDriver;
    call.cbid = 307;
    add(call);
    call.kind = cupti::kKindRuntime;
    call.cbid = 211;
    add(call);
    cupti::KernelRecord kernel{};
    kernel.kind = cupti::kKindConcurrentKernel;
    kernel.name = names[correlation * 7 % kKernels].c_str();
    kernel.correlation = correlation;
    kernel.start_ns = now_ns + 5000;
    kernel.end_ns = now_ns + 12'000;
    add(kernel);
    if (correlation % 10 == 0) {
      cupti::MemcpyRecord copy{};
      copy.kind = cupti::kKindMemcpy;
      copy.correlation = correlation;
      copy.start_ns = now_ns;
      copy.end_ns = now_ns + 900;
      add(copy);
    }
    ++correlation;
    now_ns += 10'000;
  }
  buffers.valid_bytes.push_back(used);
  return buffers;
}

cupti::Result CallbackName(uint32_t domain, uint32_t, const char** name) {
  *name = domain == cupti::kDomainRuntimeApi ? "cudaLaunchKernel_v7000" : "cuLaunchKernel";
  return cupti::kSuccess;
}

// Chunk after chunk of a memory of 64 MB.
struct ChunkSink : client::EventSink {
  ChunkSink() : memory((64u << 20) / 8) {
    at = end = nullptr;
    make_room = [](client::EventSink* sink, uint32_t) {
      auto* self = static_cast<ChunkSink*>(sink);
      auto* base = reinterpret_cast<std::byte*>(self->memory.data());
      self->next = (self->next + wire::kChunkBytes) % (self->memory.size() * 8);
      sink->at = base + self->next + wire::kChunkDataOffset;
      sink->end = base + self->next + wire::kChunkBytes;
      return true;
    };
    intern = [](client::EventSink* sink, const char*, size_t length) {
      return 100 + static_cast<uint32_t>(length) + 0 * static_cast<ChunkSink*>(sink)->unused;
    };
  }
  std::vector<uint64_t> memory;
  uint64_t next = 0;
  uint32_t unused = 0;
};

class Bench {
 public:
  Bench(const client::CuptiLibrary& library, const Buffers& buffers)
      : library_(library), buffers_(buffers) {
    clock_->Add({kStartNs - 1'000'000'000, 1'000'000'000, 0, 0});
    clock_->Add({kStartNs + 3'600'000'000'000, 3'602'000'000'000, 3'601'000'000'000 * 5 / 2, 0});
  }

  double OwnWalk() {
    return PerRecord([&](const std::byte* buffer, uint64_t bytes) {
      kept_ += client::CountRecords(library_.record_bytes, buffer, bytes);
    });
  }
  double TheirWalk() {
    return PerRecord([&](const std::byte* buffer, uint64_t bytes) {
      cupti::Activity* record = nullptr;
      auto* from = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(buffer));
      while (library_.ActivityGetNextRecord(from, bytes, &record) == cupti::kSuccess) ++kept_;
    });
  }
  double DecodeByOwnWalk() {
    return PerRecord(
        [&](const std::byte* buffer, uint64_t bytes) { decoder_->Decode(buffer, bytes, &sink_); });
  }
  double DecodeByTheirWalk() {
    return PerRecord([&](const std::byte* buffer, uint64_t bytes) {
      cupti::Activity* record = nullptr;
      auto* from = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(buffer));
      while (library_.ActivityGetNextRecord(from, bytes, &record) == cupti::kSuccess) {
        decoder_->Decode(reinterpret_cast<const std::byte*>(record),
                         library_.record_bytes[record->kind], &sink_);
      }
    });
  }
  uint64_t events() const { return decoder_->event_count(); }

 private:
  double PerRecord(const std::function<void(const std::byte*, uint64_t)>& each) {
    decoder_->Begin({.record_bytes = library_.record_bytes,
                     .clock = clock_.get(),
                     .callback_name = CallbackName,
                     .api_filter = client::ApiFilter::kMost});
    decoder_->set_window(0, UINT64_MAX);
    const uint64_t start_ns = ThreadCpuNs();
    for (size_t i = 0; i < buffers_.words.size(); ++i) {
      decoder_->BeginBatch();
      each(reinterpret_cast<const std::byte*>(buffers_.words[i].data()), buffers_.valid_bytes[i]);
    }
    return static_cast<double>(ThreadCpuNs() - start_ns) / static_cast<double>(buffers_.records);
  }

  const client::CuptiLibrary& library_;
  const Buffers& buffers_;
  std::unique_ptr<client::GpuClock> clock_ = std::make_unique<client::GpuClock>();
  std::unique_ptr<RecordDecoder> decoder_ = std::make_unique<RecordDecoder>();
  ChunkSink sink_;
  uint64_t kept_ = 0;
};

int Run(uint64_t record_count, int rounds) {
  client::CuptiLibrary library;
  client::ArmFailure failure;
  setenv("PROFD_CUPTI_LIB", PROFD_BENCH_CUPTI, 0);
  if (!client::FindCupti({.version = 13000}, &library, &failure)) {
    fprintf(stderr, "%s\n", failure.text);
    return 1;
  }
  std::vector<std::string> names;
  names.reserve(kKernels);
  for (uint32_t i = 0; i < kKernels; ++i) {
    names.push_back("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE_" +
                    std::to_string(i) + std::string(i % 100, 'x'));
  }
  const Buffers buffers = MakeBuffers(record_count, names);
  Bench bench(library, buffers);
  double best[4] = {1e9, 1e9, 1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    best[0] = std::min(best[0], bench.OwnWalk());
    best[1] = std::min(best[1], bench.TheirWalk());
    best[2] = std::min(best[2], bench.DecodeByOwnWalk());
    best[3] = std::min(best[3], bench.DecodeByTheirWalk());
  }
  printf("%llu records, %llu events, libcupti %u%s\n",
         static_cast<unsigned long long>(buffers.records),
         static_cast<unsigned long long>(bench.events()), library.version,
         library.simulated ? " (simulated)" : "");
  printf("walk, our own                   %6.2f ns/record\n", best[0]);
  printf("walk, GetNextRecord             %6.2f ns/record\n", best[1]);
  printf("decode, with our own walk       %6.2f ns/record\n", best[2]);
  printf("decode, with GetNextRecord      %6.2f ns/record\n", best[3]);
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  const uint64_t records = argc > 1 ? strtoull(argv[1], nullptr, 10) : 2'000'000;
  const int rounds = argc > 2 ? static_cast<int>(strtol(argv[2], nullptr, 10)) : 7;
  return profd::Run(records, rounds);
}
