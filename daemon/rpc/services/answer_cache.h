// AnswerCache keeps the newest answers of reports, so that the same report on the same file is not
// made again. Answers never become outdated: a capture file does not change, and the cache ends
// with the process, so another version of profd does not see it.
//
// Threads: any. Memory: kMostBytes and a little per answer; the answers used least recently go
// first. Larger answers than kMostAnswerBytes are not kept.
#ifndef PROFD_DAEMON_RPC_SERVICES_ANSWER_CACHE_H_
#define PROFD_DAEMON_RPC_SERVICES_ANSWER_CACHE_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace profd::rpc {

class AnswerCache {
 public:
  static constexpr size_t kMostBytes = 16 << 20;
  static constexpr size_t kMostAnswerBytes = 1 << 20;

  // What an answer depends on: the file and the request, which must not name the capture anymore
  // (callers name one capture in several ways). Equal requests have equal keys.
  static std::string KeyOf(std::string_view file_sha256, std::string_view table,
                           const google::protobuf::MessageLite& request);

  std::optional<grpc::ByteBuffer> Find(const std::string& key);
  void Put(const std::string& key, const grpc::ByteBuffer& answer);

 private:
  struct Entry {
    std::string key;
    grpc::ByteBuffer answer;
    size_t bytes;
  };
  using Entries = std::list<Entry>;

  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  Entries newest_first_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, Entries::iterator> by_key_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_ANSWER_CACHE_H_
