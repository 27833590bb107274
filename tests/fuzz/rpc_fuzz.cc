// Bytes as one call of profd's gRPC API, over the control socket of a real server with a real
// store. The first byte chooses the method, by its place among all methods of profd.v1, sorted by
// their full names. The rest is the request message, as it is on the wire; of a method that takes a
// stream of requests it is a list of messages, each after its length in two bytes, lowest first.
// make_rpc_corpus.py writes inputs.
//
// The caller is an ordinary user with targets and captures of its own (kOwnCapture). Whatever it
// sends, it gets a terminal status, the server answers the next caller, and another user's capture
// stays as it is and unseen. A process that is not root cannot call as another user; then it calls
// as the daemon's own user, who may see everything, and only survival is checked.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/convert/convert.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

// Stands for the ID of a capture, which no input can know, and is as long.
constexpr std::string_view kOwnCapture = "OWN-CAPTURE---------------";
constexpr std::string_view kOtherCapture = "OTHER-CAPTURE-------------";
static_assert(kOwnCapture.size() == 26 && kOtherCapture.size() == 26);
constexpr std::string_view kSecret = "named by another user";
constexpr int64_t kOtherUid = 54321;

// Streams may be endless; every other call is answered.
constexpr seconds kStreamDeadline(2);
constexpr seconds kAnswerDeadline(60);
// A stream that has answered, and then is silent for this long, is cancelled.
constexpr milliseconds kQuietStream(100);
constexpr int kCallsPerCleanup =
    16;  // Live captures end this often, so that quotas are free again.
constexpr int kCallsPerServer = 2'000;

[[noreturn]] void Die(std::string_view method, std::string_view what) {
  fprintf(stderr, "rpc_fuzz: %.*s: %.*s\n", static_cast<int>(method.size()), method.data(),
          static_cast<int>(what.size()), what.data());
  __builtin_trap();
}

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const FileDescriptor* file :
       {v1::Capture::descriptor()->file(), v1::Node::descriptor()->file(),
        v1::Target::descriptor()->file(), v1::Schedule::descriptor()->file(),
        v1::Report::descriptor()->file(), v1::ExportTraceRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        methods.push_back(file->service(i)->method(j));
      }
    }
  }
  std::sort(methods.begin(), methods.end(),
            [](const auto* a, const auto* b) { return a->full_name() < b->full_name(); });
  return methods;
}

std::string PathOf(const MethodDescriptor& method) {
  return StrCat("/", method.service()->full_name(), "/", method.name());
}

void ReplaceAll(std::string_view what, std::string_view by, std::string& text) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
  }
}

std::vector<std::string> Requests(const MethodDescriptor& method, std::string_view bytes) {
  if (!method.client_streaming()) return {std::string(bytes)};
  std::vector<std::string> requests;
  while (bytes.size() >= 2) {
    const size_t length =
        static_cast<uint8_t>(bytes[0]) | static_cast<size_t>(static_cast<uint8_t>(bytes[1])) << 8;
    requests.emplace_back(bytes.substr(2, length));
    bytes.remove_prefix(std::min(bytes.size(), 2 + length));
  }
  return requests;
}

struct Answer {
  grpc::Status status;
  std::vector<std::string> messages;
};

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

Answer Call(const std::shared_ptr<grpc::Channel>& channel, const MethodDescriptor& method,
            const std::vector<std::string>& requests) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() +
                       (method.server_streaming() ? kStreamDeadline : kAnswerDeadline));
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(&context, PathOf(method), &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto done = [&] { return queue.Next(&tag, &ok) && ok; };

  Answer answer;
  call->StartCall(nullptr);
  bool is_open = done();
  for (const std::string& request : requests) {
    if (!is_open) break;
    const grpc::Slice slice(request);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    is_open = done();
  }
  if (is_open) {
    call->WritesDone(nullptr);
    is_open = done();
  }
  const auto received = [&] {
    if (!method.server_streaming() || answer.messages.empty()) return done();
    const auto next = queue.AsyncNext(&tag, &ok, system_clock::now() + kQuietStream);
    if (next != grpc::CompletionQueue::TIMEOUT) return ok;
    context.TryCancel();
    return done();
  };
  while (true) {
    grpc::ByteBuffer message;
    call->Read(&message, nullptr);
    if (!received()) break;
    answer.messages.push_back(BytesOf(message));
  }
  call->Finish(&answer.status, nullptr);
  done();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return answer;
}

// What RpcTest starts, outside of a test.
class FuzzedServer final : public RpcTest {
 public:
  static std::unique_ptr<FuzzedServer> Make() {
    SetLogLevel(LogLevel::kError);
    setenv("PROFD_BUILD_DIR", PROFD_FUZZ_BUILD_DIR, /*overwrite=*/1);
    return std::make_unique<FuzzedServer>();
  }

  FuzzedServer() {
    RpcTest::SetUp();
    if (server_ == nullptr) Die("start", "no server");
    targets_.AnswerByItself(DrainResult());
    for (const int64_t pid : {5001, 5002, 5003}) targets_.Add(TargetOf(pid, caller_uid_));
    targets_.Add(TargetOf(5004, kOtherUid));
    const CaptureSpec spec = {.steps = 1, .display_name = std::string(kSecret)};
    theirs_ = StoreCapture(kOtherUid, /*ranges=*/20, spec).id;
    unnamed_ = StoreCapture(kOtherUid, /*ranges=*/20, spec).id;
    their_record_ = TheirRecord();
    their_file_ = TheirFile();
    if (their_record_.empty() || their_file_.empty()) Die("start", "no capture");
    StoreOwnCapture();
    ConnectCaller();
  }
  ~FuzzedServer() override { RpcTest::TearDown(); }

  int call_count() const { return call_count_; }

  void Try(const MethodDescriptor& method, std::string bytes) {
    if (HoldsSecret(bytes)) return;  // It would be in later answers.
    ReplaceAll(kOwnCapture, own_, bytes);
    ReplaceAll(kOtherCapture, theirs_, bytes);
    const Answer answer = Call(channel_, method, Requests(method, bytes));
    CheckStatus(method, answer.status);
    if (IsForeign()) {
      CheckUnseen(method, answer);
      CheckUnchanged(method);
    }
    CheckAlive(method);
    if (answer.status.error_code() == grpc::UNAVAILABLE) ConnectCaller();
    CleanUp();
  }

 private:
  void TestBody() override {}

  bool IsForeign() const { return caller_uid_ != uid_; }

  void ConnectCaller() {
    channel_.reset();
    if (!IsForeign()) {
      channel_ = Connect();
      return;
    }
    peer_ = std::make_unique<ForeignPeer>(
        socket_path(), [] { return setgid(kNobody) == 0 && setuid(kNobody) == 0; });
    if (!peer_->connected()) Die("connect", "no connection as another user");
    channel_ = ChannelOver(peer_->TakeConnection());
  }

  // What only an answer about another user's data can hold: inputs cannot name it.
  bool HoldsSecret(std::string_view text) const {
    return text.find(kSecret) != std::string_view::npos ||
           text.find(unnamed_) != std::string_view::npos;
  }

  void StoreOwnCapture() {
    own_ = StoreCapture(caller_uid_, /*ranges=*/20, {.steps = 1}, /*gpu=*/true).id;
  }

  std::string TheirRecord() {
    const auto record = store_->GetCapture(theirs_);
    const auto is_pinned = store_->IsPinned(theirs_);
    if (!record.ok() || !is_pinned.ok()) return {};
    v1::Capture text;
    CaptureToProto(*record, text);
    return StrCat(text.DebugString(), *is_pinned ? "pinned" : "");
  }
  std::string TheirFile() const {
    std::ifstream file(folder_.path() / "data/captures" / StrCat(theirs_, ".profd"),
                       std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  static void CheckStatus(const MethodDescriptor& method, const grpc::Status& status) {
    const std::string& message = status.error_message();
    const bool is_ours = status.error_code() == grpc::INTERNAL &&
                         message.find("Unable to parse request") == std::string::npos;
    const bool is_unanswered =
        status.error_code() == grpc::DEADLINE_EXCEEDED && !method.server_streaming();
    if (is_ours || is_unanswered || status.error_code() == grpc::UNKNOWN ||
        status.error_code() == grpc::UNIMPLEMENTED) {
      Die(method.name(), StrCat("status ", static_cast<int>(status.error_code()), ": ", message));
    }
    if (!IsValidUtf8(message)) Die(method.name(), "a message that is not UTF-8");
  }

  void CheckUnseen(const MethodDescriptor& method, const Answer& answer) const {
    if (answer.status.error_message().find(folder_.path().string()) != std::string::npos) {
      Die(method.name(), "a path of the daemon's in a message");
    }
    const auto is_secret = [this](std::string_view text) { return HoldsSecret(text); };
    if (is_secret(answer.status.error_message()) ||
        std::ranges::any_of(answer.messages, is_secret)) {
      Die(method.name(), "another user's data");
    }
  }
  void CheckUnchanged(const MethodDescriptor& method) {
    if (TheirRecord() != their_record_) Die(method.name(), "another user's record changed");
    if (TheirFile() != their_file_) Die(method.name(), "another user's events changed");
  }
  void CheckAlive(const MethodDescriptor& method) {
    grpc::ClientContext context;
    context.set_deadline(system_clock::now() + kAnswerDeadline);
    v1::Node node;
    const grpc::Status status = me_->node->GetNode(&context, v1::GetNodeRequest(), &node);
    if (!status.ok()) {
      Die(method.name(), StrCat("then the server fails: ", status.error_message()));
    }
    if (IsForeign() && !node.captures_allowed()) Die(method.name(), "captures are off");
  }

  void CleanUp() {
    clock_.Advance(absl::Seconds(1));  // For the limits per minute.
    if (++call_count_ % kCallsPerCleanup != 0) return;
    for (const CaptureRecord& record : manager_->Live()) {
      targets_.Drained(record.id, DrainResult());
    }
    manager_->DrainForTesting();
    const auto own = store_->GetCapture(own_);
    if (!own.ok() || own->deleted) StoreOwnCapture();
  }

  const int64_t caller_uid_ = uid_ == 0 ? kNobody : uid_;
  int call_count_ = 0;
  std::string own_;
  std::string theirs_;   // kOtherCapture
  std::string unnamed_;  // Another one of the same user.
  std::string their_record_;
  std::string their_file_;
  std::unique_ptr<ForeignPeer> peer_;
  std::shared_ptr<grpc::Channel> channel_;
};

FuzzedServer* g_server = nullptr;

void EndServer() {
  delete g_server;
  g_server = nullptr;
}

FuzzedServer& RunningServer() {
  if (g_server != nullptr && g_server->call_count() < kCallsPerServer) return *g_server;
  EndServer();
  g_server = FuzzedServer::Make().release();
  // Registered after the server made what it uses (Clock::Real()), so it ends before that does.
  [[maybe_unused]] static const int registered = std::atexit(&EndServer);
  return *g_server;
}

}  // namespace
}  // namespace profd::rpc

PROFD_FUZZ_TARGET(FuzzRpc)(std::span<const uint8_t> data) {
  if (data.empty()) return;
  static const auto methods = profd::rpc::AllMethods();
  profd::rpc::RunningServer().Try(
      *methods[data[0] % methods.size()],
      std::string(reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1));
}
