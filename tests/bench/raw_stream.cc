// How fast a stream of messages goes over mutual TLS with nothing behind it: what a fetch of the
// same bytes can reach at best. Server and reader are processes of their own, as profd and
// profctl are.
//
//   raw_stream serve CERT KEY CA               prints its port; ends when stdin does
//   raw_stream read PORT CERT KEY CA BYTES     prints seconds
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "profd/v1/captures.grpc.pb.h"

namespace profd::bench {
namespace {

constexpr int64_t kPieceBytes = 512 << 10;  // As profd's downloads.

std::string ReadFile(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Source final : public v1::CaptureService::Service {
  grpc::Status DownloadCapture(grpc::ServerContext* /*context*/,
                               const v1::DownloadCaptureRequest* request,
                               grpc::ServerWriter<v1::DownloadCaptureResponse>* writer) override {
    v1::DownloadCaptureResponse piece;
    piece.set_data(std::string(kPieceBytes, 'x'));
    for (int64_t sent = 0; sent < request->offset(); sent += kPieceBytes) writer->Write(piece);
    return grpc::Status::OK;
  }
};

int Serve(char** files) {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = ReadFile(files[2]);
  options.pem_key_cert_pairs.push_back(
      {.private_key = ReadFile(files[1]), .cert_chain = ReadFile(files[0])});
  Source source;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
  builder.RegisterService(&source);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int Read(const char* port, char** files, int64_t bytes) {
  grpc::ChannelArguments arguments;
  // As profctl's own.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel =
      grpc::CreateCustomChannel(std::string("localhost:") + port,
                                grpc::SslCredentials({.pem_root_certs = ReadFile(files[2]),
                                                      .pem_private_key = ReadFile(files[1]),
                                                      .pem_cert_chain = ReadFile(files[0])}),
                                arguments);
  const auto begin = std::chrono::steady_clock::now();
  const auto stub = v1::CaptureService::NewStub(channel);
  grpc::ClientContext context;
  v1::DownloadCaptureRequest request;
  request.set_offset(bytes);
  const auto reader = stub->DownloadCapture(&context, request);
  v1::DownloadCaptureResponse piece;
  int64_t got = 0;
  while (reader->Read(&piece)) got += static_cast<int64_t>(piece.data().size());
  const grpc::Status status = reader->Finish();
  if (!status.ok() || got < bytes) {
    std::fprintf(stderr, "raw_stream: %s\n", status.error_message().c_str());
    return 1;
  }
  std::printf("%.6f\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return 0;
}

}  // namespace
}  // namespace profd::bench

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "serve" && argc == 5) return profd::bench::Serve(argv + 2);
  if (mode == "read" && argc == 7) {
    return profd::bench::Read(argv[2], argv + 3, std::strtoll(argv[6], nullptr, 10));
  }
  std::fprintf(stderr, "usage: raw_stream serve CERT KEY CA | read PORT CERT KEY CA BYTES\n");
  return 2;
}
