// Bytes as a packet of a target: what is accepted must be within its bounds.
#include <vector>

#include "daemon/base/text.h"
#include "daemon/ingest/frame_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd {
namespace {

void CheckFields(const Fields& fields) {
  const auto require = [](bool holds) {
    if (!holds) __builtin_trap();
  };
  require(fields.metadata.size() <= wire::kMaxMetadataFields);
  require(IsPrintableUtf8(fields.library_version));
  for (const auto& [key, value] : fields.metadata) {
    require(!key.empty() && key.size() <= 63 && IsPrintableUtf8(key));
    require(value.size() <= 255 && IsPrintableUtf8(value));
  }
}

}  // namespace
}  // namespace profd

// Byte 0: 1 makes the length right, so that there is something behind it.
PROFD_FUZZ_TARGET(FuzzFrame)(std::span<const uint8_t> data) {
  if (data.empty()) return;
  const auto bytes = std::as_bytes(data.subspan(1));
  std::vector<std::byte> packet(bytes.begin(), bytes.end());
  if (data[0] == 1 && packet.size() >= sizeof(profd::wire::FrameHeader)) {
    const auto length = static_cast<uint32_t>(packet.size());
    std::memcpy(packet.data(), &profd::wire::kFrameMagic, sizeof(uint32_t));
    std::memcpy(packet.data() + offsetof(profd::wire::FrameHeader, length_bytes), &length,
                sizeof(length));
  }
  const auto frame = profd::ParseFrame(packet);
  if (!frame.ok()) return;
  if (const auto hello = profd::ParseHello(*frame); hello.ok()) profd::CheckFields(hello->fields);
  if (const auto metadata = profd::ParseMetadata(*frame); metadata.ok()) {
    profd::CheckFields(*metadata);
  }
}
