# One image for every process: `npm run image` (docker, podman or buildah), then `docker run headgate gateway …`.
# The base image must contain npm and Node 24 or later. It needs no compiler, because the SQLite driver is prebuilt from Node 24 on.
ARG BASE=node:24-bookworm-slim

FROM ${BASE} AS build
# Certificate authority of the proxy between the builder and the package registry, if there is one.
ARG NODE_EXTRA_CA_CERTS
WORKDIR /app
# Dependencies are a separate layer, which stays cached when only the sources change.
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
# A number, so that an orchestrator can verify that the user is not root.
USER 1000:1000
VOLUME /data
# Without a shell, so that the process itself receives signals.
ENTRYPOINT ["node", "/app/dist/cli/headgate.js"]
