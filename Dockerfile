# One image for every process: `npm run image` (docker, podman or buildah), then `docker run headgate gateway …`.
# The base has Node 24 or later and npm. No compiler: from Node 24 on the SQLite driver comes built.
ARG BASE=node:24-bookworm-slim

FROM ${BASE} AS build
# The certificate authority of a proxy between the builder and the package registry, where there is one.
ARG NODE_EXTRA_CA_CERTS
WORKDIR /app
# Dependencies are a layer of their own, which a change of the sources keeps.
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
ARG REVISION=unknown
RUN HEADGATE_BUILD_REVISION="${REVISION}" npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund && node tools/scripts/prune-image.mjs

FROM ${BASE}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="headgate" \
      org.opencontainers.image.description="A multi-tenant inference gateway that keeps answering when its control plane is down" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production HEADGATE_DATA=/data
WORKDIR /app
COPY --from=build /app/package.json /app/LICENSE ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/docs docs
COPY --from=build /app/schemas/json schemas/json
COPY --from=build --chown=1000:1000 /data /data
# By number, so that an orchestrator can verify that it is not root.
USER 1000:1000
VOLUME /data
# No shell in between: the process receives the signals itself.
ENTRYPOINT ["node", "/app/dist/cli/headgate.js"]
