#include "daemon/archive/s3/object_file.h"

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::archive {

absl::StatusOr<std::unique_ptr<ObjectFile>> ObjectFile::Open(S3Client& client,
                                                             std::string_view key) {
  ASSIGN_OR_RETURN(ObjectInfo info, client.Head(key));
  return std::unique_ptr<ObjectFile>(new ObjectFile(client, std::move(info)));
}

absl::StatusOr<size_t> ObjectFile::Read(int64_t offset, std::span<char> to) {
  size_t filled = 0;
  while (filled < to.size() && offset < info_.bytes) {
    ASSIGN_OR_RETURN(const std::string* const block, BlockAt(offset / kBlockBytes));
    const auto from = static_cast<size_t>(offset % kBlockBytes);
    const size_t count = std::min(to.size() - filled, block->size() - from);
    std::copy_n(block->data() + from, count, to.data() + filled);
    filled += count;
    offset += static_cast<int64_t>(count);
  }
  return filled;
}

absl::StatusOr<const std::string*> ObjectFile::BlockAt(int64_t number) {
  auto found = by_number_.find(number);
  if (found == by_number_.end()) {
    RETURN_IF_ERROR(Fetch(number));
    found = by_number_.find(number);
  }
  blocks_.splice(blocks_.begin(), blocks_, found->second);
  return &found->second->bytes;
}

absl::Status ObjectFile::Fetch(int64_t number) {
  // SQLite reads a few pages here and there, and runs of pages of a chunk. The run doubles while
  // reading is sequential and starts again after a jump, so a random read fetches one block.
  ahead_ = number == next_number_ ? std::min(2 * ahead_, kMaxBlocksAhead) : 1;
  int64_t count = 1;
  const int64_t block_count = (info_.bytes + kBlockBytes - 1) / kBlockBytes;
  while (count < ahead_ && number + count < block_count && !by_number_.contains(number + count)) {
    ++count;
  }
  const int64_t offset = number * kBlockBytes;
  const int64_t wanted = std::min(count * kBlockBytes, info_.bytes - offset);
  ASSIGN_OR_RETURN(const std::string bytes, client_.Get(info_.key, offset, wanted));
  if (std::ssize(bytes) != wanted) {
    return absl::DataLossError(StrCat("object '", ForDisplay(info_.key, 200), "' is shorter than ",
                                      info_.bytes, " bytes"));
  }
  fetched_bytes_ += wanted;
  next_number_ = number + count;
  // The wanted block last, so that it is not the one that goes.
  for (int64_t i = count - 1; i >= 0; --i) {
    Keep(number + i,
         bytes.substr(static_cast<size_t>(i * kBlockBytes), static_cast<size_t>(kBlockBytes)));
  }
  return absl::OkStatus();
}

void ObjectFile::Keep(int64_t number, std::string bytes) {
  blocks_.push_front({.number = number, .bytes = std::move(bytes)});
  by_number_[number] = blocks_.begin();
  if (blocks_.size() <= kMaxKeptBlocks) return;
  by_number_.erase(blocks_.back().number);
  blocks_.pop_back();
}

}  // namespace profd::archive
