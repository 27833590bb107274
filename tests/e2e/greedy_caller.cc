// A caller of the control socket that wants too much, for tests/e2e/exhaustion_test.py.
//
//   greedy_caller calls COUNT CONNECTIONS   keeps COUNT ListAudit calls in flight
//   greedy_caller imports COUNT             opens COUNT imports that send nothing more
//
// The socket is $PROFD_SOCKET_DIR/control.sock. Prints "begun" when all were begun, then goes on
// until its standard input ends, then prints how the calls ended: "OK 120", "RESOURCE_EXHAUSTED 9".
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profd/v1/captures.grpc.pb.h"
#include "profd/v1/node.grpc.pb.h"

namespace profd {
namespace {

using Ends = std::map<grpc::StatusCode, int>;

std::string NameOf(grpc::StatusCode code) {
  if (code == grpc::StatusCode::OK) return "OK";
  if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) return "RESOURCE_EXHAUSTED";
  if (code == grpc::StatusCode::CANCELLED) return "CANCELLED";
  return std::to_string(code);
}

std::shared_ptr<grpc::Channel> Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
  return grpc::CreateCustomChannel(
      std::string("unix:") + std::getenv("PROFD_SOCKET_DIR") + "/control.sock",
      grpc::InsecureChannelCredentials(), arguments);
}

bool InputEnds(int timeout_ms) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, timeout_ms) > 0;
}
bool InputEnded() { return InputEnds(0); }
void AwaitInputEnd() {
  while (!InputEnds(/*timeout_ms=*/-1)) {  // A signal came.
  }
}

void Say(std::string_view line) {
  std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
  std::fflush(stdout);
}

void Print(const Ends& ends) {
  for (const auto& [code, count] : ends) Say(NameOf(code) + " " + std::to_string(count));
}

// ---- calls ----

struct AuditCall {
  grpc::ClientContext context;
  grpc::Status status;
  v1::ListAuditResponse response;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ListAuditResponse>> reader;
};

void Calls(int count, int connections) {
  std::vector<std::unique_ptr<v1::NodeService::Stub>> stubs;
  for (int i = 0; i < connections; ++i) stubs.push_back(v1::NodeService::NewStub(Connect()));
  grpc::CompletionQueue queue;
  v1::ListAuditRequest request;
  request.set_verb("no such method");
  size_t next = 0;
  const auto begin = [&] {
    auto* call = new AuditCall;
    call->reader = stubs[next++ % stubs.size()]->AsyncListAudit(&call->context, request, &queue);
    call->reader->Finish(&call->response, &call->status, call);
  };
  for (int i = 0; i < count; ++i) begin();
  Say("begun");
  Ends ends;
  int in_flight = count;
  bool more = true;
  while (in_flight > 0) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) break;
    const std::unique_ptr<AuditCall> call(static_cast<AuditCall*>(tag));
    ++ends[call->status.error_code()];
    --in_flight;
    more = more && !InputEnded();
    if (!more) continue;
    begin();
    ++in_flight;
  }
  Print(ends);
}

// ---- imports ----

void Imports(int count) {
  const auto stub = v1::CaptureService::NewStub(Connect());
  struct Import {
    grpc::ClientContext context;
    v1::Capture response;
    std::unique_ptr<grpc::ClientWriter<v1::ImportCaptureRequest>> writer;
  };
  v1::ImportCaptureRequest first;
  first.set_total_bytes(1 << 20);
  first.set_sha256(std::string(64, '0'));
  first.set_data("S");
  std::vector<std::unique_ptr<Import>> imports;
  for (int i = 0; i < count; ++i) {
    auto& import = *imports.emplace_back(std::make_unique<Import>());
    import.writer = stub->ImportCapture(&import.context, &import.response);
    import.writer->Write(first);
  }
  Say("begun");
  AwaitInputEnd();
  Ends ends;
  for (const auto& import : imports) {
    import->context.TryCancel();
    ++ends[import->writer->Finish().error_code()];
  }
  Print(ends);
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "calls" && argc == 4) {
    profd::Calls(std::atoi(argv[2]), std::atoi(argv[3]));
  } else if (what == "imports" && argc == 3) {
    profd::Imports(std::atoi(argv[2]));
  } else {
    std::fputs("usage: greedy_caller calls COUNT CONNECTIONS | imports COUNT\n", stderr);
    return 2;
  }
  return 0;
}
