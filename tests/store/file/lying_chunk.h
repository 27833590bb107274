// Capture files that lie although every checksum is right.
#ifndef PROFD_TESTS_STORE_FILE_LYING_CHUNK_H_
#define PROFD_TESTS_STORE_FILE_LYING_CHUNK_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "daemon/store/file/chunk_codec.h"
#include "daemon/store/file/schema.h"
#include "tests/store/store_fixture.h"

namespace profd::store {

// Puts `table` in the place of the sealed file's first chunk, and seals the file again. The chunk
// claims that time passes in it, whatever its rows say.
template <typename Row>
void ReplaceFirstChunk(const std::filesystem::path& file, EventTable<Row> table) {
  ColumnEncoder encoder;
  std::string chunk;
  const ChunkSummary summary =
      EncodeChunk(table, {.begin_ns = 0, .end_ns = 10'000}, encoder, chunk);
  auto db = Database::Open(file, Database::Mode::kReadWrite);
  ASSERT_THAT(db, IsOk());
  StatementLease put = (*db)->Use(
      "UPDATE chunks SET kind=?1, rows=?2, begin_ns=?3, end_ns=?4, data=?5 WHERE id = 1");
  put->Bind(1, static_cast<int64_t>(summary.kind)).Bind(2, summary.rows);
  put->Bind(3, summary.span.begin_ns).Bind(4, summary.span.end_ns).BindBorrowedBlob(5, chunk);
  ASSERT_THAT(put->Run(), IsOk());
  ASSERT_THAT(SetMeta(**db, kMetaSealed, 0), IsOk());
  const auto contents = CaptureContents::Load(**db);
  ASSERT_THAT(contents, IsOk());
  ASSERT_THAT(SetMeta(**db, kMetaCrc, contents->crc), IsOk());
  ASSERT_THAT(SetMeta(**db, kMetaSealed, 1), IsOk());
}

}  // namespace profd::store

#endif  // PROFD_TESTS_STORE_FILE_LYING_CHUNK_H_
