// A chunk: up to 64 K events of one kind, as columns, in one blob.
//
//   byte 0        4         6      7        8      12      16       24       32
//        +--------+---------+------+--------+------+-------+--------+--------+-------------+
//        | "PCHK" | version | kind | column | rows | crc32 | begin  |  end   | column      |
//        |        | u16: 1  |  u8  |  count | u32  |  u32  | ns i64 | ns i64 | lengths u32 |
//        +--------+---------+------+--------+------+-------+--------+--------+-------------+
//   then the columns (column_codec.h) in the order of daemon/capture/event_kinds.h. crc32 covers
//   the header and the lengths, with itself as 0; every column has its own.
//
// Rows of one thread are together, in order of their end; rows of GPU kinds have no order.
//
// Threads: one encoder or decoder per thread.
// Errors:  DATA_LOSS for anything but what the encoder wrote; hostile bytes are harmless.
#ifndef PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_
#define PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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
  RowKind kind = RowKind::kRange;
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

// Replaces `out` by the chunk for `table`, which covers `span` and whose thread column, if any,
// must be filled. The table's values become those of the file.
template <typename Row>
ChunkSummary EncodeChunk(EventTable<Row>& table, const TimeSpan& span, ColumnEncoder& encoder,
                         std::string& out) {
  const ChunkSummary summary = {Row::kKind, static_cast<uint32_t>(table.size()), span};
  Pack(table);
  const size_t column_count = StoredColumns(table);
  out.assign(kChunkHeaderBytes + 4 * column_count, '\0');
  std::array<size_t, EventTable<Row>::kColumnCount> columns;
  VisitColumns(table, [&](const auto& column, ColumnTransform transform, size_t number) {
    if (number >= column_count) return;
    columns[number] = out.size();
    if constexpr (std::is_same_v<decltype(column), const std::vector<double>&>) {
      std::vector<uint64_t> bits(column.size());
      std::memcpy(bits.data(), column.data(), column.size() * sizeof(double));
      encoder.Encode(std::span<const uint64_t>(bits), transform, out);
    } else {
      encoder.Encode(std::span(column), transform, out);
    }
  });
  chunk_internal::WriteHeader(summary, std::span(columns).first(column_count), out);
  return summary;
}

// Decodes the columns whose bit (1 << number) is set in `wanted` into `table`, leaving the
// others as they are; the values are those of the file. Added columns that the chunk lacks are 0.
// `bytes` are those of the chunk from the first wanted column's offset to the last one's end, at
// least.
template <typename Row>
absl::Status DecodeChunk(const ChunkLayout& layout, uint32_t wanted, std::string_view bytes,
                         size_t bytes_offset, ColumnDecoder& decoder, EventTable<Row>& table) {
  absl::Status status;
  VisitColumns(table, [&](auto& column, ColumnTransform, size_t number) {
    if ((wanted & (1u << number)) == 0 || !status.ok()) return;
    if (number >= layout.column_count) {
      if ((AddedColumns<Row>() & (1u << number)) == 0) {
        status = absl::DataLossError("damaged chunk: a column is missing");
      } else {
        column.assign(layout.summary.rows, {});
      }
      return;
    }
    column.resize(layout.summary.rows);
    const std::string_view encoded = bytes.substr(
        layout.offsets[number] - bytes_offset, layout.offsets[number + 1] - layout.offsets[number]);
    if constexpr (std::is_same_v<decltype(column), std::vector<double>&>) {
      std::vector<uint64_t> bits(column.size());
      status = decoder.Decode(encoded, std::span(bits));
      std::memcpy(column.data(), bits.data(), bits.size() * sizeof(double));
    } else {
      status = decoder.Decode(encoded, std::span(column));
    }
  });
  return status;
}

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CHUNK_CODEC_H_
