#include "daemon/store/file/chunk_codec.h"

#include <cstring>

namespace profd::store {
namespace {

constexpr uint32_t kMagic = 0x4b484350;  // "PCHK"
constexpr uint16_t kVersion = 1;

struct ChunkHeader {
  uint32_t magic;
  uint16_t version;
  uint8_t kind;
  uint8_t column_count;
  uint32_t rows;
  uint32_t crc;
  int64_t begin_ns;
  int64_t end_ns;
};
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);

absl::Status DamagedChunk(const char* what) {
  return absl::DataLossError(std::string("damaged chunk: ") + what);
}

uint32_t HeaderCrc(ChunkHeader header, std::string_view lengths) {
  // The checksum covers itself as 0. Those of the columns are in the columns, so one column can be
  // read and checked alone.
  header.crc = 0;
  const uint32_t crc = Crc32(0, {reinterpret_cast<const char*>(&header), sizeof(header)});
  return Crc32(crc, lengths);
}

}  // namespace

namespace chunk_internal {

void WriteHeader(const ChunkSummary& summary, std::span<const size_t> columns, std::string& out) {
  ChunkHeader header = {.magic = kMagic,
                        .version = kVersion,
                        .kind = static_cast<uint8_t>(summary.kind),
                        .column_count = static_cast<uint8_t>(columns.size()),
                        .rows = summary.rows,
                        .crc = 0,
                        .begin_ns = summary.span.begin_ns,
                        .end_ns = summary.span.end_ns};
  char* lengths = out.data() + kChunkHeaderBytes;
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t end = i + 1 < columns.size() ? columns[i + 1] : out.size();
    const auto length = static_cast<uint32_t>(end - columns[i]);
    std::memcpy(lengths + 4 * i, &length, sizeof(length));
  }
  header.crc = HeaderCrc(header, {lengths, 4 * columns.size()});
  std::memcpy(out.data(), &header, sizeof(header));
}

}  // namespace chunk_internal

absl::StatusOr<ChunkLayout> ChunkLayout::Parse(std::string_view prefix, size_t chunk_bytes) {
  ChunkHeader header;
  if (prefix.size() < sizeof(header)) return DamagedChunk("too short");
  std::memcpy(&header, prefix.data(), sizeof(header));
  if (header.magic != kMagic) return DamagedChunk("not a chunk");
  if (header.version != kVersion) return DamagedChunk("unknown version");
  if (header.column_count == 0) return DamagedChunk("no columns");
  if (header.column_count > kMaxChunkColumns) return DamagedChunk("too many columns");
  const size_t lengths_bytes = size_t{4} * header.column_count;
  if (prefix.size() < sizeof(header) + lengths_bytes) return DamagedChunk("too short");
  const std::string_view lengths = prefix.substr(sizeof(header), lengths_bytes);
  if (HeaderCrc(header, lengths) != header.crc) return DamagedChunk("checksum of its header");
  if (header.rows == 0 || header.rows > kMaxChunkRows) return DamagedChunk("impossible row count");
  if (header.begin_ns < -kMaxTimeNs || header.end_ns > kMaxTimeNs ||
      header.begin_ns > header.end_ns) {
    return DamagedChunk("impossible times");
  }

  ChunkLayout layout;
  layout.summary = {
      static_cast<RowKind>(header.kind), header.rows, {header.begin_ns, header.end_ns}};
  layout.column_count = header.column_count;
  // 32 lengths of 32 bits cannot overflow it.
  size_t offset = sizeof(header) + lengths_bytes;
  for (size_t i = 0; i < header.column_count; ++i) {
    uint32_t length;
    std::memcpy(&length, lengths.data() + 4 * i, sizeof(length));
    layout.offsets[i] = offset;
    offset += length;
  }
  layout.offsets[header.column_count] = offset;
  // Readers trust the offsets from here on. The last one is the largest, so this one check bounds
  // all of them.
  if (offset != chunk_bytes) return DamagedChunk("its columns do not fill it");
  return layout;
}

}  // namespace profd::store
