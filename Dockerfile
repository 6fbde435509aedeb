# Detector and collector: `docker build -t picket .`; deploy/ and docker-compose.yml name the image so.
FROM node:20-bookworm AS build
WORKDIR /picket
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npx tsc -p . && rm -r dist/test && make -C native addon && npm prune --omit=dev

FROM node:20-bookworm-slim
WORKDIR /picket
COPY --from=build /picket/package.json ./
COPY --from=build /picket/node_modules node_modules
COPY --from=build /picket/dist dist
COPY --from=build /picket/bin bin
COPY --from=build /picket/fixtures fixtures
COPY --from=build /picket/rules rules
COPY --from=build /picket/native/addon/build/Release/picket_native.node native/addon/build/Release/
# The database lives here; a new volume takes over the owner.
RUN mkdir /var/lib/picket && chown node /var/lib/picket
USER node
ENTRYPOINT ["node", "bin/picket.js"]
