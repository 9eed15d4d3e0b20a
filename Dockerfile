# The binary is static and carries its own certificate authorities: nothing else is needed.
FROM scratch
COPY bin/gatehouse /gatehouse
USER 65532:65532
ENTRYPOINT ["/gatehouse"]
