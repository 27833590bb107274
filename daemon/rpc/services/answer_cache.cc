#include "daemon/rpc/services/answer_cache.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "daemon/base/str_cat.h"

namespace profd::rpc {

std::string AnswerCache::KeyOf(std::string_view file_sha256, std::string_view table,
                               const google::protobuf::MessageLite& request) {
  std::string key = StrCat(file_sha256, " ", table, " ");
  google::protobuf::io::StringOutputStream stream(&key);
  google::protobuf::io::CodedOutputStream coded(&stream);
  // Options are a map, which has no order of its own.
  coded.SetSerializationDeterministic(true);
  request.SerializeToCodedStream(&coded);
  coded.Trim();
  return key;
}

std::optional<grpc::ByteBuffer> AnswerCache::Find(const std::string& key) {
  const absl::MutexLock lock(&mu_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
  return found->second->answer;  // Shares its bytes.
}

void AnswerCache::Put(const std::string& key, const grpc::ByteBuffer& answer) {
  const size_t bytes = key.size() + answer.Length();
  // One answer must not displace all others.
  if (bytes > kMostAnswerBytes) return;
  const absl::MutexLock lock(&mu_);
  if (by_key_.contains(key)) return;
  newest_first_.push_front({key, answer, bytes});
  by_key_.emplace(key, newest_first_.begin());
  bytes_ += bytes;
  while (bytes_ > kMostBytes) DropOldest();
}

void AnswerCache::DropOldest() {
  bytes_ -= newest_first_.back().bytes;
  by_key_.erase(newest_first_.back().key);
  newest_first_.pop_back();
}

}  // namespace profd::rpc
