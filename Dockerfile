# Tally in a container: no root, nothing writable but /data, nothing installed that requirements.lock does not name by hash.
#
#   docker build -t tally .
#   docker run -d --name tally --read-only --cap-drop ALL --security-opt no-new-privileges \
#     -p 127.0.0.1:8000:8000 -v tally:/data tally
#   docker logs tally                                        # the setup link
#   docker exec tally analytics-server website add example.com
#
# .ci/image.py takes these steps without a container. For images that can be built again as they were, name the two bases
# by their digests.

FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
RUN python -m venv /opt/tally && /opt/tally/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE analytics_server.py schema.sql ./
COPY static static
COPY tally tally
RUN /opt/build/bin/hatchling build -t wheel -d /opt/dist
RUN /opt/tally/bin/pip install --no-cache-dir --no-index --no-deps /opt/dist/*.whl && /opt/tally/bin/pip check
RUN /opt/tally/bin/pip uninstall --yes --quiet pip setuptools

FROM python:3.11-slim
COPY --from=build /opt/tally /opt/tally
RUN install -d -o 10001 -g 10001 -m 700 /data
ENV PATH=/opt/tally/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Temporary files (8 MB at the start) go where the database is: nothing else is writable.
ENV TMPDIR=/data
ENV ANALYTICS_HOST=0.0.0.0 ANALYTICS_PORT=8000 ANALYTICS_DB=/data/analytics.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["python", "-c", "import http.client, os, sys; ask = http.client.HTTPConnection('127.0.0.1', int(os.environ['ANALYTICS_PORT']), timeout=4); ask.request('GET', os.environ.get('ANALYTICS_BASE_PATH', '').rstrip('/') + '/healthz'); sys.exit(ask.getresponse().status != 200)"]
ENTRYPOINT ["analytics-server"]
CMD ["serve"]
