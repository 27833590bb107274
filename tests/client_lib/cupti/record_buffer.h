// RecordBuffer is a buffer as CUPTI fills it, put together record by record, and EventList
// where the decoder's events go: for tests of client_lib/cupti without a CUPTI.
#ifndef PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_BUFFER_H_
#define PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_BUFFER_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/record_decoder.h"
#include "proto/wire/event.h"

namespace profd::testing {

namespace cupti = client::cupti;

using RecordSizes = std::array<uint16_t, cupti::kKindLimit>;

// The sizes that CUPTI 13.0 and 11.2 have.
inline RecordSizes SizesOf13() {
  RecordSizes sizes{};
  sizes[cupti::kKindMemcpy] = 96;
  sizes[cupti::kKindMemset] = 88;
  sizes[cupti::kKindKernel] = sizes[cupti::kKindConcurrentKernel] = 216;
  sizes[cupti::kKindDriver] = sizes[cupti::kKindRuntime] = 40;
  sizes[cupti::kKindDevice] = 184;
  sizes[cupti::kKindContext] = 32;
  sizes[cupti::kKindOverhead] = 56;
  sizes[cupti::kKindMemcpyPeer] = 96;
  sizes[cupti::kKindCudaEvent] = 56;
  sizes[cupti::kKindStream] = 24;
  sizes[cupti::kKindSynchronization] = 56;
  sizes[cupti::kKindExternalCorrelation] = 24;
  sizes[cupti::kKindMemory] = 128;
  sizes[cupti::kKindMemoryPool] = 80;
  sizes[cupti::kKindGraphTrace] = 56;
  sizes[cupti::kKindMemDecompress] = 64;
  return sizes;
}
inline RecordSizes SizesOf11() {
  RecordSizes sizes = SizesOf13();
  sizes[cupti::kKindMemcpy] = 80;
  sizes[cupti::kKindMemset] = 80;
  sizes[cupti::kKindKernel] = sizes[cupti::kKindConcurrentKernel] = 168;
  sizes[cupti::kKindDevice] = 152;
  sizes[cupti::kKindContext] = 16;
  sizes[cupti::kKindOverhead] = 40;
  sizes[cupti::kKindMemcpyPeer] = 88;
  sizes[cupti::kKindCudaEvent] = 24;
  sizes[cupti::kKindSynchronization] = 40;
  sizes[cupti::kKindMemory] = 112;
  sizes[cupti::kKindMemoryPool] = 64;
  sizes[cupti::kKindGraphTrace] = 0;
  sizes[cupti::kKindMemDecompress] = 0;
  return sizes;
}

// What lies behind the bytes that a record has is 0xA5, so that reading it shows.
class RecordBuffer {
 public:
  explicit RecordBuffer(const RecordSizes& sizes) : sizes_(sizes) {}

  template <typename Record>
  RecordBuffer& Add(const Record& record) {
    const uint16_t size = sizes_[record.kind];
    const size_t at = bytes_.size();
    bytes_.resize(at + size, std::byte{0xa5});
    memcpy(bytes_.data() + at, &record, size < sizeof(record) ? size : sizeof(record));
    return *this;
  }
  RecordBuffer& AddBytes(const void* bytes, size_t size) {
    const auto* from = static_cast<const std::byte*>(bytes);
    bytes_.insert(bytes_.end(), from, from + size);
    return *this;
  }

  const std::byte* data() const { return bytes_.data(); }
  uint64_t size() const { return bytes_.size(); }

 private:
  const RecordSizes sizes_;
  std::vector<std::byte> bytes_;
};

// Takes up to `limit_bytes` of events. Names get ids from 100 on.
class EventList : public client::EventSink {
 public:
  explicit EventList(size_t limit_bytes = 1 << 20) : bytes_(limit_bytes) {
    at = bytes_.data();
    end = at + bytes_.size();
    make_room = [](client::EventSink*, uint32_t) { return false; };
    intern = [](client::EventSink* sink, const char* text, size_t length) {
      auto& names = static_cast<EventList*>(sink)->names_;
      const auto next = static_cast<uint32_t>(100 + names.size());
      return names.emplace(std::string(text, length), next).first->second;
    };
  }

  // The events of type `Event`, in order.
  template <typename Event>
  std::vector<Event> Of(wire::EventKind kind) const {
    std::vector<Event> found;
    for (const std::byte* record = bytes_.data(); record < at;) {
      wire::EventHeader header;
      memcpy(&header, record, sizeof(header));
      if (header.kind == static_cast<uint8_t>(kind)) {
        Event event;
        memcpy(&event, record, sizeof(event));
        found.push_back(event);
      }
      record += header.size_bytes;
    }
    return found;
  }
  uint64_t count() const {
    uint64_t events = 0;
    for (const std::byte* record = bytes_.data(); record < at; ++events) {
      wire::EventHeader header;
      memcpy(&header, record, sizeof(header));
      record += header.size_bytes;
    }
    return events;
  }
  std::string NameOf(uint32_t id) const {
    for (const auto& [name, its_id] : names_) {
      if (its_id == id) return name;
    }
    return "";
  }
  void Clear() { at = bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
  std::map<std::string, uint32_t> names_;
};

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_CUPTI_RECORD_BUFFER_H_
