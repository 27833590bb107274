// The agent: the library's thread. It alone talks to the daemon, maps and unmaps
// memory, and does whatever else may take time; application threads never wait for it.
//
// It has a descriptor table of its own (own_files.h). So it calls no code but the library's, and no
// function of libc that tools replace (direct_calls.h). It makes no thread: the helper, which keeps
// the program's table, does that for it (helper.h).
//
// It sleeps in poll() while connected and nothing is asked of it. Without a daemon it
// tries again with back-off up to 30 s.
//
// Threads: Start, Wake*: any. Signals are blocked in it; it is named "profd" and nice.
// Errors:  whatever the daemon does wrong ends the connection, and with it the capture. A refused
//          system call turns the library off (StayOff()).
// Fork:    AgentResetInChild() forgets the thread and closes what the parent had open.
#ifndef PROFD_CLIENT_LIB_CORE_AGENT_H_
#define PROFD_CLIENT_LIB_CORE_AGENT_H_

#include <cstdint>

namespace profd::client {

// Makes the helper and the agent. False: there is no thread to be had.
bool StartAgent();

// Metadata changed: send it if connected.
void WakeAgent();

// Unless the agent is connected, it tries to connect once more after this call, without a wait.
void WakeAgentToConnect();

// The GPU's part of a capture has got somewhere. Any thread.
void WakeAgentForGpu();

// What PyTorch's part was asked for is done, or there is a torch now. Any thread.
void WakeAgentForTorch();

bool AgentIsConnected();
// Whether a daemon has welcomed this process at some time.
bool AgentWasRegistered();
uint64_t ArmedCaptureCount();

void AgentResetInChild();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_AGENT_H_
