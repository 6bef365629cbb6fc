# One image for every process: `docker build -t headgate .`, then `docker run headgate gateway …`.
FROM node:22-bookworm AS build
WORKDIR /app
COPY . .
RUN npm ci && npm prune --omit=dev

FROM node:22-bookworm-slim
# More room for short-lived garbage: collecting it takes a gateway half the time (docs/operate.md).
ENV NODE_ENV=production NODE_OPTIONS=--max-semi-space-size=32
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN mkdir /data && chown node /data
USER node
VOLUME /data
ENTRYPOINT ["node", "/app/dist/cli/headgate.js"]
