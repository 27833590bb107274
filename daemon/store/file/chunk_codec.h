// A chunk: up to 64 K events of one kind, as columns, in one blob.
//
//   byte 0        4         6      7        8      12      16       24       32
//        +--------+---------+------+--------+------+-------+--------+--------+-------------+
//        | "PCHK" | version | kind | column | rows | crc32 | begin  |  end   | column      |
//        |        | u16: 1  |  u8  |  count | u32  |  u32  | ns i64 | ns i64 | lengths u32 |
//        +--------+---------+------+--------+------+-------+--------+--------+-------------+
//   then the columns (column_codec.h) in the order of event_columns.h. crc32 covers the header
//   and the lengths, with itself as 0; every column has its own.
//
// Rows of one thread are together, in order of their end; rows of GPU kinds have no order.
//
// Threads: one encoder or decoder per thread.
// Errors:  DATA_LOSS for anything but what the encoder wrote; hostile bytes are harmless.
#ifndef PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_
#define PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/file/column_codec.h"
#include "daemon/store/file/event_columns.h"

namespace profd::store {

inline constexpr size_t kMaxChunkColumns = 32;  // A bit each in a uint32_t.
inline constexpr size_t kChunkHeaderBytes = 32;
// The largest header with its lengths.
inline constexpr size_t kMaxChunkPrefixBytes = kChunkHeaderBytes + 4 * kMaxChunkColumns;

// The header's description of a chunk.
struct ChunkSummary {
  ChunkKind kind = ChunkKind::kRange;
  uint32_t rows = 0;
  TimeSpan span;  // Since the capture's epoch.
};

// The positions of a chunk's columns.
struct ChunkLayout {
  ChunkSummary summary;
  size_t column_count = 0;
  std::array<size_t, kMaxChunkColumns + 1> offsets{};  // The last is the chunk's size.

  // Parses the first bytes of a chunk (all, or kMaxChunkPrefixBytes of them), given its size.
  static absl::StatusOr<ChunkLayout> Parse(std::string_view prefix, size_t chunk_bytes);
};

namespace chunk_internal {
// `columns`: where each begins in `out`, which so far holds room for the header only.
void WriteHeader(const ChunkSummary& summary, std::span<const size_t> columns, std::string& out);
}  // namespace chunk_internal

// Replaces `out` by the chunk for `table`, whose thread column, if any, must be filled.
template <typename Table>
ChunkSummary EncodeChunk(const Table& table, ColumnEncoder& encoder, std::string& out) {
  const ChunkSummary summary = {Table::kKind, static_cast<uint32_t>(table.size()), table.Span()};
  out.assign(kChunkHeaderBytes + 4 * std::size(Table::kTransforms), '\0');
  std::vector<size_t> columns;
  VisitColumns(table, [&](const auto& column, ColumnTransform transform) {
    columns.push_back(out.size());
    encoder.Encode(std::span(column), transform, out);
  });
  chunk_internal::WriteHeader(summary, columns, out);
  return summary;
}

// Decodes the columns whose bit (1 << number) is set in `wanted` into `table`, leaving the
// others as they are. `bytes` are those of the chunk from the first wanted column's offset
// to the last one's end, at least.
template <typename Table>
absl::Status DecodeChunk(const ChunkLayout& layout, uint32_t wanted, std::string_view bytes,
                         size_t bytes_offset, ColumnDecoder& decoder, Table& table) {
  absl::Status status;
  size_t column_number = 0;
  VisitColumns(table, [&](auto& column, ColumnTransform) {
    const size_t number = column_number++;
    if ((wanted & (1u << number)) == 0 || !status.ok()) return;
    if (number >= layout.column_count) {
      status = absl::DataLossError("damaged chunk: a column is missing");
      return;
    }
    column.resize(layout.summary.rows);
    const std::string_view encoded = bytes.substr(
        layout.offsets[number] - bytes_offset, layout.offsets[number + 1] - layout.offsets[number]);
    status = decoder.Decode(encoded, std::span(column));
  });
  return status;
}

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_
