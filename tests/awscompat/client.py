"""Invokes endpoints with boto3 and prints what came of it as JSON:
python3 client.py '{"endpoint": NAME, "works": URL, "refuses": URL, "dies": URL, "keyed": URL}'
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

given = json.loads(sys.argv[1])


def client(url):
    return boto3.client(
        "sagemaker-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        config=Config(retries={"total_max_attempts": 1}),
    )


def request(**more):
    body = {"messages": [{"role": "user", "content": "Say hello to the people in hall three."}], "max_tokens": 6}
    return {"EndpointName": given["endpoint"], "ContentType": "application/json", "Body": json.dumps(body), **more}


def read(url):
    out = client(url).invoke_endpoint_with_response_stream(**request())
    got = {"type": out["ContentType"], "variant": out["InvokedProductionVariant"], "text": "", "error": "", "code": ""}
    try:
        for event in out["Body"]:
            got["text"] += event["PayloadPart"]["Bytes"].decode()
    except EventStreamError as err:
        got["error"] = err.response["Error"]["Code"]
    return got


def failure(url, **more):
    try:
        client(url).invoke_endpoint(**request(**more))
        return {}
    except ClientError as err:
        r = err.response
        return {
            "name": r["Error"]["Code"],
            "status": r["ResponseMetadata"]["HTTPStatusCode"],
            "original": r.get("OriginalStatusCode", 0),
            "said": r.get("OriginalMessage", ""),
        }


def invoke(url):
    out = client(url).invoke_endpoint(**request(CustomAttributes="trace = 1"))
    return {"variant": out["InvokedProductionVariant"], "choices": len(json.loads(out["Body"].read())["choices"])}


result = {
    "invoked": invoke(given["works"]),
    "keyed": invoke(given["keyed"]),
    "streamed": read(given["works"]),
    "broken": read(given["dies"]),
    "refused": failure(given["refuses"]),
    "unknown": failure(given["works"], EndpointName="other"),
}
print(json.dumps(result))
