// Decodes a dump of CUPTI's buffers (client_lib/cupti/buffer_dump.h) again, and compares what comes
// out with what came out in the process that made it.
//
//   replay_dump FILE   prints one JSON object. Exits with 0: equal, 1: not equal or no whole dump
//
// Addresses in the records were the other process's. Names of kernels and API functions come from
// the dump; every other pointer becomes null, since the decoder frees some of them.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client_lib/cupti/buffer_dump.h"
#include "client_lib/cupti/cupti_abi.h"

namespace profd::gpu {
namespace {

using client::DumpBlockType;
using client::DumpResult;
namespace cupti = client::cupti;

std::map<std::pair<uint32_t, uint32_t>, std::string>& ApiNames() {
  static std::map<std::pair<uint32_t, uint32_t>, std::string> names;
  return names;
}

cupti::Result FindApiName(uint32_t domain, uint32_t cbid, const char** name) {
  const auto found = ApiNames().find({domain, cbid});
  if (found == ApiNames().end()) return cupti::kErrorInvalidParameter;
  *name = found->second.c_str();
  return cupti::kSuccess;
}

// Events go nowhere.
struct NullSink : client::EventSink {
  NullSink() : bytes(1 << 16) {
    at = bytes.data();
    end = at + bytes.size();
    make_room = [](client::EventSink* sink, uint32_t wanted) {
      auto* self = static_cast<NullSink*>(sink);
      self->at = self->bytes.data();
      return wanted <= self->bytes.size();
    };
    intern = [](client::EventSink*, const char*, size_t) { return uint32_t{1}; };
  }
  std::vector<std::byte> bytes;
};

template <typename T>
T ReadAt(const std::vector<std::byte>& bytes, size_t at) {
  T value;
  memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::string JsonOf(const DumpResult& result) {
  char text[512];
  snprintf(text, sizeof(text),
           "{\"events\": %" PRIu64 ", \"untimed\": %" PRIu64 ", \"corrupt\": %" PRIu64
           ", \"unknown_kind\": %" PRIu64 ", \"over_cap\": %" PRIu64 ", \"before_window\": %" PRIu64
           ", \"unfinished\": %" PRIu64 ", \"filtered_api\": %" PRIu64
           ", \"later_launch\": %" PRIu64 "}",
           result.event_count, result.untimed, result.corrupt, result.unknown_kind, result.over_cap,
           result.before_window, result.unfinished, result.filtered_api, result.later_launch);
  return text;
}

class Replay {
 public:
  explicit Replay(std::vector<std::byte> dump) : dump_(std::move(dump)) {}

  // False: `why` says what is wrong with the dump.
  bool Run(std::string& why) {
    if (dump_.size() < sizeof(header_)) return Fail(why, "shorter than its header");
    header_ = ReadAt<client::DumpHeader>(dump_, 0);
    if (memcmp(header_.magic, client::kDumpMagic, sizeof(client::kDumpMagic)) != 0) {
      return Fail(why, "not a dump of CUPTI's buffers");
    }
    decoder_->Begin({.record_bytes = header_.record_bytes,
                     .clock = clock_.get(),
                     .callback_name = FindApiName,
                     .api_filter = static_cast<client::ApiFilter>(header_.api_filter),
                     .max_records = header_.max_records,
                     .begin_ticks = header_.begin_ticks});
    for (size_t at = sizeof(header_); at < dump_.size();) {
      if (dump_.size() - at < sizeof(client::DumpBlock)) return Fail(why, "ends in a block");
      const auto block = ReadAt<client::DumpBlock>(dump_, at);
      at += sizeof(block);
      const size_t padded = (size_t{block.bytes} + 7) / 8 * 8;
      if (padded > dump_.size() - at) return Fail(why, "ends in a block");
      if (!Take(static_cast<DumpBlockType>(block.type), at, block.bytes, why)) return false;
      at += padded;
    }
    return true;
  }

  bool is_equal() const {
    return memcmp(&recorded_, &replayed_, sizeof(recorded_)) == 0 && has_result_;
  }

  void Print() const {
    printf("{\"cupti_version\": %u, \"simulated\": %s, \"truncated\": %s, \"buffers\": %" PRIu64
           ", \"records\": {",
           header_.cupti_version, header_.is_simulated != 0 ? "true" : "false",
           header_.is_truncated != 0 ? "true" : "false", buffers_);
    const char* separator = "";
    for (const auto& [kind, count] : records_) {
      printf("%s\"%u\": %" PRIu64, separator, kind, count);
      separator = ", ";
    }
    printf("}, \"recorded\": %s, \"replayed\": %s, \"equal\": %s}\n", JsonOf(recorded_).c_str(),
           JsonOf(replayed_).c_str(), is_equal() ? "true" : "false");
  }

 private:
  static bool Fail(std::string& why, const char* what) {
    why = what;
    return false;
  }

  bool Take(DumpBlockType type, size_t at, uint32_t bytes, std::string& why) {
    switch (type) {
      case DumpBlockType::kClock:
        if (bytes != sizeof(client::ClockSample)) return Fail(why, "a clock of another size");
        clock_->Add(ReadAt<client::ClockSample>(dump_, at));
        return true;
      case DumpBlockType::kApiName: {
        if (bytes < sizeof(client::DumpApiName)) return Fail(why, "an API name without its number");
        const auto function = ReadAt<client::DumpApiName>(dump_, at);
        ApiNames()[{function.domain, function.cbid}] =
            TextAt(at + sizeof(function), bytes - sizeof(function));
        return true;
      }
      case DumpBlockType::kText: {
        if (bytes < sizeof(uint64_t)) return Fail(why, "a text without its address");
        const auto address = ReadAt<uint64_t>(dump_, at);
        texts_[address] =
            std::make_unique<std::string>(TextAt(at + sizeof(address), bytes - sizeof(address)));
        return true;
      }
      case DumpBlockType::kState: {
        if (bytes != sizeof(client::RecordDecoder::Settings))
          return Fail(why, "a state of another size");
        const auto settings = ReadAt<client::RecordDecoder::Settings>(dump_, at);
        decoder_->set_window(settings.window_start_ticks, settings.window_end_ticks);
        if (settings.leaves_out_later_work != 0) decoder_->set_leaves_out_later_work();
        if (settings.is_last_flush != 0) decoder_->set_is_last_flush();
        decoder_->set_is_kept_buffer(settings.is_kept_buffer != 0);
        decoder_->set_records_decompression(settings.records_decompression != 0);
        return true;
      }
      case DumpBlockType::kBuffer:
        DecodeBuffer(at, bytes);
        return true;
      case DumpBlockType::kDevices:
        if (bytes != sizeof(uint64_t)) return Fail(why, "devices of another size");
        decoder_->set_devices_seen(ReadAt<uint64_t>(dump_, at));
        return true;
      case DumpBlockType::kResult:
        if (bytes != sizeof(DumpResult)) return Fail(why, "a result of another size");
        recorded_ = ReadAt<DumpResult>(dump_, at);
        // What found no room in capture memory is an event here.
        recorded_.event_count += recorded_.no_chunk;
        recorded_.no_chunk = 0;
        replayed_ = ReadDumpResult(decoder_.get());
        has_result_ = true;
        return true;
    }
    return Fail(why, "a block of unknown type");
  }

  std::string TextAt(size_t at, size_t bytes) const {
    return {reinterpret_cast<const char*>(dump_.data() + at), bytes};
  }

  template <typename T>
  static void Put(std::byte* record, size_t record_bytes, size_t offset, T value) {
    if (offset + sizeof(value) <= record_bytes) memcpy(record + offset, &value, sizeof(value));
  }

  // Makes the pointers in a record ours, or null.
  void Localize(cupti::Kind kind, std::byte* record, size_t bytes) {
    if (kind == cupti::kKindConcurrentKernel || kind == cupti::kKindKernel) {
      constexpr size_t kOffset = offsetof(cupti::KernelRecord, name);
      uint64_t address = 0;
      if (kOffset + sizeof(address) > bytes) return;
      memcpy(&address, record + kOffset, sizeof(address));
      const auto found = texts_.find(address);
      Put(record, bytes, kOffset, found != texts_.end() ? found->second->c_str() : nullptr);
    } else if (kind == cupti::kKindDevice) {
      Put<void*>(record, bytes, offsetof(cupti::DeviceRecord, name), nullptr);
    } else if (kind == cupti::kKindOverhead) {
      Put<void*>(record, bytes, offsetof(cupti::OverheadRecord, data), nullptr);
    } else if (kind == cupti::kKindMemory) {
      Put<void*>(record, bytes, offsetof(cupti::MemoryRecord, name), nullptr);
      Put<void*>(record, bytes, offsetof(cupti::MemoryRecord, source), nullptr);
    }
  }

  void DecodeBuffer(size_t at, size_t bytes) {
    ++buffers_;
    // Of 8-byte words: records are aligned.
    std::vector<uint64_t> copy((bytes + 7) / 8);
    auto* records = reinterpret_cast<std::byte*>(copy.data());
    memcpy(records, dump_.data() + at, bytes);
    size_t offset = 0;
    while (offset + sizeof(cupti::Kind) <= bytes) {
      cupti::Kind kind;
      memcpy(&kind, records + offset, sizeof(kind));
      const size_t size = kind < cupti::kKindLimit ? header_.record_bytes[kind] : 0;
      if (size == 0 || size > bytes - offset) break;
      Localize(kind, records + offset, size);
      ++records_[kind];
      offset += size;
    }
    decoder_->BeginBatch();
    decoder_->Decode(records, bytes, &sink_);
  }

  const std::vector<std::byte> dump_;
  client::DumpHeader header_{};
  std::unique_ptr<client::GpuClock> clock_ = std::make_unique<client::GpuClock>();
  std::unique_ptr<client::RecordDecoder> decoder_ = std::make_unique<client::RecordDecoder>();
  NullSink sink_;
  std::unordered_map<uint64_t, std::unique_ptr<std::string>> texts_;
  std::map<uint32_t, uint64_t> records_;
  DumpResult recorded_{};
  DumpResult replayed_{};
  uint64_t buffers_ = 0;
  bool has_result_ = false;
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: replay_dump FILE\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  std::vector<std::byte> dump(content.size());
  memcpy(dump.data(), content.data(), content.size());
  Replay replay(std::move(dump));
  std::string why;
  if (!replay.Run(why)) {
    fprintf(stderr, "replay_dump: %s: %s\n", argv[1], why.c_str());
    return 1;
  }
  replay.Print();
  return replay.is_equal() ? 0 : 1;
}

}  // namespace
}  // namespace profd::gpu

int main(int argc, char** argv) { return profd::gpu::Main(argc, argv); }
