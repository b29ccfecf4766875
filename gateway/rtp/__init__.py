"""RTP and RTCP, sans-I/O."""
