# One image for all binaries; the command says which. Build with the workspace's root as context.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The queries are checked against the committed .sqlx: no database is needed to build.
ENV SQLX_OFFLINE=true
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package pay-api --package pay-scanner --package pay-recon --package pay-sim \
    && mkdir /out \
    && cp target/release/pay-api target/release/pay-scanner target/release/pay-recon target/release/pay-sim /out/

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 pay \
    && install -d -o pay /var/lib/pay-sim /var/lib/pay-recon /var/bills
COPY --from=build /out/ /usr/local/bin/
USER pay
