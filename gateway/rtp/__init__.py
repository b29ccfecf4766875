"""RTP, RTCP and telephone events, without I/O."""
